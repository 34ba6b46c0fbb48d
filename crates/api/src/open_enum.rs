//! String enums that survive values they do not know.
//!
//! A closed enum would make one new value in one field unreadable for the whole object, so every enum on
//! the wire has a last variant that keeps the text. The schema still lists only the known values.

/// Declares an enum over wire strings with a catch-all variant `Unknown`.
macro_rules! open_enum {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $( $(#[$variant_meta:meta])* $variant:ident = $text:literal ),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $( $(#[$variant_meta])* $variant, )+
            /// A value that this version does not know, kept as it was read. Empty means not set.
            Unknown(String),
        }

        impl $name {
            /// The known wire values, in declaration order.
            pub const KNOWN: &'static [&'static str] = &[$($text),+];

            /// The wire value.
            pub fn as_str(&self) -> &str {
                match self {
                    $( Self::$variant => $text, )+
                    Self::Unknown(text) => text,
                }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::Unknown(String::new())
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $( $text => Self::$variant, )+
                    other => Self::Unknown(other.to_owned()),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Ok(Self::from(String::deserialize(deserializer)?.as_str()))
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "enum": Self::KNOWN })
            }
        }
    };
}

pub(crate) use open_enum;

#[cfg(test)]
mod tests {
    use crate::pod_gang::PodGangPhase;

    #[test]
    fn known_and_unknown_values_survive_a_round_trip() {
        for text in ["Pending", "Running", "Napping", ""] {
            let json = serde_json::json!(text);
            let value: PodGangPhase = serde_json::from_value(json.clone()).unwrap();

            let is_unknown = matches!(value, PodGangPhase::Unknown(_));
            assert_eq!(is_unknown, !PodGangPhase::KNOWN.contains(&text));
            assert_eq!(serde_json::to_value(&value).unwrap(), json);
        }
    }
}
