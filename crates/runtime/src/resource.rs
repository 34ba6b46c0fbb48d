//! Names and addresses of objects: [`Resource`] (a kind as in URLs), [`ObjectKey`] (one object of it) and
//! [`Uid`].

use std::any::TypeId;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::ClusterResourceScope;
use serde::{Deserialize, Serialize};

/// A kind of object as the API server serves it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    /// API group, empty for core.
    pub group: Cow<'static, str>,
    /// Version inside the group.
    pub version: Cow<'static, str>,
    /// Lower-case plural, as in URLs.
    pub plural: Cow<'static, str>,
    /// Kind, as in manifests.
    pub kind: Cow<'static, str>,
    /// Whether objects have a namespace.
    pub namespaced: bool,
}

impl Resource {
    /// A namespaced kind.
    pub const fn namespaced(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
    ) -> Self {
        Self::new(group, version, plural, kind, true)
    }

    /// A cluster-scoped kind.
    pub const fn cluster(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
    ) -> Self {
        Self::new(group, version, plural, kind, false)
    }

    const fn new(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
        namespaced: bool,
    ) -> Self {
        Self {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed(version),
            plural: Cow::Borrowed(plural),
            kind: Cow::Borrowed(kind),
            namespaced,
        }
    }

    /// The kind of a typed object.
    pub fn of<K>() -> Self
    where
        K: kube::Resource<DynamicType = ()>,
        K::Scope: 'static,
    {
        Self {
            group: K::group(&()),
            version: K::version(&()),
            plural: K::plural(&()),
            kind: K::kind(&()),
            namespaced: TypeId::of::<K::Scope>() != TypeId::of::<ClusterResourceScope>(),
        }
    }

    /// `version` or `group/version`, as in manifests.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// `plural` or `plural.group`, unique among all kinds.
    pub fn qualified_name(&self) -> Cow<'static, str> {
        if self.group.is_empty() {
            self.plural.clone()
        } else {
            format!("{}.{}", self.plural, self.group).into()
        }
    }

    /// URL path of the collection in one namespace, or in the whole cluster for an empty one.
    pub fn path(&self, namespace: &str) -> String {
        let version = self.discovery_path();
        if namespace.is_empty() {
            format!("{version}/{}", self.plural)
        } else {
            format!("{version}/namespaces/{namespace}/{}", self.plural)
        }
    }

    /// URL path of the resource list of the group and version.
    pub(crate) fn discovery_path(&self) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        format!("{root}/{}", self.api_version())
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.qualified_name())
    }
}

/// One object of a kind: namespace (empty for cluster-scoped kinds) and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Name. Compared first: of two keys, the names differ more often than the namespaces.
    pub name: Arc<str>,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: Arc<str>,
}

impl ObjectKey {
    /// The object `name` in `namespace`.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { name: name.into(), namespace: namespace.into() }
    }

    /// The cluster-scoped object `name`.
    pub fn cluster(name: &str) -> Self {
        Self::new("", name)
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// The uid of an object: unlike a name, it is never reused.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Uid(pub Box<str>);

impl From<&str> for Uid {
    fn from(uid: &str) -> Self {
        Self(uid.into())
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Node, Pod};

    use super::*;

    #[test]
    fn typed_objects_name_their_kind_and_scope() {
        assert_eq!(Resource::of::<Pod>(), Resource::namespaced("", "v1", "pods", "Pod"));
        assert_eq!(Resource::of::<Node>(), Resource::cluster("", "v1", "nodes", "Node"));
    }

    #[test]
    fn paths_follow_group_and_scope() {
        let gangs = Resource::namespaced("scheduler.grove.io", "v1alpha1", "podgangs", "PodGang");
        assert_eq!(
            gangs.path("team-a"),
            "/apis/scheduler.grove.io/v1alpha1/namespaces/team-a/podgangs"
        );
        assert_eq!(gangs.path(""), "/apis/scheduler.grove.io/v1alpha1/podgangs");
        assert_eq!(Resource::of::<Node>().path(""), "/api/v1/nodes");
        assert_eq!(gangs.discovery_path(), "/apis/scheduler.grove.io/v1alpha1");
        assert_eq!(Resource::of::<Node>().discovery_path(), "/api/v1");
        assert_eq!(gangs.qualified_name(), "podgangs.scheduler.grove.io");
    }
}
