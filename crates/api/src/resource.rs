//! One declaration for every top-level object, ours and foreign.
//!
//! kube's derive would generate a root type without room for unknown keys and would tie foreign kinds to
//! a schema they do not need, so the roots are declared by the macro below. `apiVersion` and `kind` are
//! constants of the type: always written, and refused on decode when they name something else (they
//! may be absent, as in the items of a list). Metadata is the one part without unknown keys: its type
//! belongs to Kubernetes and is as new as the newest server version we support.

use serde::de::Error;

/// Refuses an object with another `apiVersion` or `kind`.
pub(crate) fn check_type<E: Error>(
    field: &str,
    found: Option<&str>,
    expected: &str,
) -> Result<(), E> {
    match found {
        Some(text) if text != expected => {
            Err(E::custom(format_args!("{field} is {text:?}, expected {expected:?}")))
        }
        _ => Ok(()),
    }
}

/// Declares a Kubernetes object with `metadata`, `spec`, an optional `status` and unknown keys.
macro_rules! resource {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            group: $group:literal,
            version: $version:literal,
            plural: $plural:literal,
            scope: $scope:ident,
            spec: $spec:ty
            $(, status: $status:ty)?
            $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name {
            /// Standard object metadata.
            pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            /// The desired state.
            pub spec: $spec,
            $(
                /// The observed state.
                pub status: Option<$status>,
            )?
            /// Root keys that this version does not know.
            pub unknown: crate::unknown::Unknown,
        }

        impl $name {
            /// Group and version as written in `apiVersion`.
            pub const API_VERSION: &'static str = concat!($group, "/", $version);
            /// The kind as written in `kind`.
            pub const KIND: &'static str = stringify!($name);
            /// The plural name used in URLs.
            pub const PLURAL: &'static str = $plural;

            /// An object with a name and a spec.
            pub fn new(name: &str, spec: $spec) -> Self {
                let mut object = Self { spec, ..Self::default() };
                object.metadata.name = Some(name.to_owned());
                object
            }
        }

        impl kube::Resource for $name {
            type DynamicType = ();
            type Scope = kube::core::$scope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                Self::KIND.into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                $version.into()
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(
                &mut self,
            ) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }

        impl kube::core::object::HasSpec for $name {
            type Spec = $spec;

            fn spec(&self) -> &$spec {
                &self.spec
            }

            fn spec_mut(&mut self) -> &mut $spec {
                &mut self.spec
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap as _;

                let mut map = serializer.serialize_map(None)?;
                map.serialize_entry("apiVersion", Self::API_VERSION)?;
                map.serialize_entry("kind", Self::KIND)?;
                map.serialize_entry("metadata", &self.metadata)?;
                map.serialize_entry("spec", &self.spec)?;
                $(
                    let status: Option<&$status> = self.status.as_ref();
                    if let Some(status) = status {
                        map.serialize_entry("status", status)?;
                    }
                )?
                for (key, value) in &self.unknown.0 {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[derive(serde::Deserialize)]
                #[serde(rename_all = "camelCase")]
                struct Wire {
                    api_version: Option<String>,
                    kind: Option<String>,
                    #[serde(default, deserialize_with = "crate::wire::or_default")]
                    metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
                    #[serde(default, deserialize_with = "crate::wire::or_default")]
                    spec: $spec,
                    $( status: Option<$status>, )?
                    #[serde(flatten)]
                    unknown: crate::unknown::Unknown,
                }

                let wire = Wire::deserialize(deserializer)?;
                crate::resource::check_type(
                    "apiVersion",
                    wire.api_version.as_deref(),
                    Self::API_VERSION,
                )?;
                crate::resource::check_type("kind", wire.kind.as_deref(), Self::KIND)?;
                Ok(Self {
                    metadata: wire.metadata,
                    spec: wire.spec,
                    // Naming the type ties the repetition to the macro variable.
                    $( status: std::convert::identity::<Option<$status>>(wire.status), )?
                    unknown: wire.unknown,
                })
            }
        }
    };
}

pub(crate) use resource;

#[cfg(test)]
mod tests {
    use kube::Resource as _;
    use serde_json::json;

    use crate::pod_gang::PodGang;

    #[test]
    fn object_of_another_kind_is_refused() {
        let wrong = json!({"apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodClique"});

        let error = serde_json::from_value::<PodGang>(wrong).unwrap_err().to_string();

        assert_eq!(error, r#"kind is "PodClique", expected "PodGang""#);
    }

    #[test]
    fn type_is_optional_on_decode_and_always_written() {
        let gang: PodGang = serde_json::from_value(json!({"metadata": {"name": "a-0"}})).unwrap();

        let written = serde_json::to_value(&gang).unwrap();

        assert_eq!(written["apiVersion"], "scheduler.grove.io/v1alpha1");
        assert_eq!(written["kind"], "PodGang");
        assert_eq!(
            PodGang::url_path(&(), Some("ns")),
            "/apis/scheduler.grove.io/v1alpha1/namespaces/ns/podgangs"
        );
    }
}
