//! The active backends of one operator.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use grove_api::config::{DEFAULT_SCHEDULER, Scheduler, SchedulerProfile};
use grove_api::{PodGang, labels};
use grove_runtime::process::Env;
use grove_runtime::resource::Resource;
use kube::Client;

use crate::contract::{Backend, PodRules, SchedulerObjects};
use crate::error::BackendError;
use crate::kai_scheduler::{self, KaiScheduler};
use crate::kube_scheduler::KubeScheduler;
use crate::lpx_scheduler::{self, LpxScheduler};
use crate::remote::Remote;
use crate::topology::TopologyPart;
use crate::volcano::{self, Volcano};

/// Backends by name.
#[derive(Clone)]
pub struct Registry {
    backends: BTreeMap<String, Arc<dyn Backend>>,
    default: Arc<dyn Backend>,
}

/// Why the configured backends cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// A profile that this version has no backend for.
    #[error(
        "scheduler.profiles: {0:?} is not supported by this version; remove it, or leave only \
         {DEFAULT_SCHEDULER:?}"
    )]
    Unsupported(String),
    /// An endpoint with an invalid URL.
    #[error("scheduler.profiles: {name:?}: config.endpoint.url: {wrong}")]
    Endpoint {
        /// Name of the profile.
        name: String,
        /// What is wrong.
        wrong: String,
    },
    /// The initialization of a backend failed.
    #[error(transparent)]
    Init(#[from] BackendError),
}

impl Registry {
    /// The backends of the profiles, not initialized yet. The configuration always has one for the
    /// scheduler of Kubernetes.
    pub fn new(scheduler: &Scheduler, env: &Env) -> Result<Self, RegistryError> {
        let backend = |profile: &SchedulerProfile| -> Result<Arc<dyn Backend>, RegistryError> {
            let name = profile.name.as_str();
            if let Some(endpoint) = &profile.endpoint {
                let remote = Remote::new(name, endpoint, env);
                let unusable = |wrong| RegistryError::Endpoint { name: name.to_owned(), wrong };
                return Ok(Arc::new(remote.map_err(unusable)?));
            }
            match name {
                DEFAULT_SCHEDULER => Ok(Arc::new(KubeScheduler {
                    gang_scheduling: profile.gang_scheduling == Some(true),
                })),
                kai_scheduler::NAME => Ok(Arc::new(KaiScheduler {
                    default_queue: profile.default_queue.clone(),
                    creates_pod_groups: profile.create_pod_groups != Some(false),
                })),
                volcano::NAME => Ok(Arc::new(Volcano { clock: env.clock.clone() })),
                lpx_scheduler::NAME => Ok(Arc::new(LpxScheduler)),
                _ => Err(RegistryError::Unsupported(name.to_owned())),
            }
        };
        let backends = scheduler.profiles.iter().map(backend).collect::<Result<_, _>>()?;
        Self::of(backends, &scheduler.default_profile_name)
    }

    /// These backends, of which the one called `default` serves pods that name none.
    pub fn of(backends: Vec<Arc<dyn Backend>>, default: &str) -> Result<Self, RegistryError> {
        let named = |backend: Arc<dyn Backend>| (backend.name().to_owned(), backend);
        let backends: BTreeMap<_, _> = backends.into_iter().map(named).collect();
        let unsupported = || RegistryError::Unsupported(default.to_owned());
        let default = backends.get(default).cloned().ok_or_else(unsupported)?;
        Ok(Self { backends, default })
    }

    /// Initializes every backend.
    pub async fn init(&self, client: &Client) -> Result<(), RegistryError> {
        for backend in self.backends.values() {
            backend.init(client).await?;
        }
        Ok(())
    }

    /// All backends, by name.
    pub fn all(&self) -> impl Iterator<Item = &dyn Backend> {
        self.backends.values().map(AsRef::as_ref)
    }

    /// The kinds that the backends create or read.
    pub fn kinds(&self) -> BTreeSet<Resource> {
        let topologies = self.all().filter_map(Backend::topology).map(TopologyPart::kind);
        self.all().flat_map(Backend::kinds).chain(topologies).collect()
    }

    /// Whether a scheduler counts the pods of gangs.
    pub fn count_pods(&self) -> bool {
        self.all().any(|backend| backend.pods().is_some())
    }

    /// The rules for the pods of a gang, if its scheduler counts them.
    pub fn pod_rules(&self, gang: &PodGang, objects: &dyn SchedulerObjects) -> Option<PodRules> {
        self.for_gang(gang).pods()?.rules(gang, objects)
    }

    /// The backend of pods that name none.
    pub fn default_backend(&self) -> &dyn Backend {
        &*self.default
    }

    /// The backend of this name, if it is active.
    pub fn get(&self, name: &str) -> Option<&dyn Backend> {
        self.backends.get(name).map(AsRef::as_ref)
    }

    /// The backend for a `spec.schedulerName`, which may be absent or empty.
    pub fn for_pods(&self, scheduler_name: Option<&str>) -> Option<&dyn Backend> {
        match scheduler_name {
            None | Some("") => Some(self.default_backend()),
            Some(name) => self.get(name),
        }
    }

    /// The backend of a gang: by its label, and the default one without it.
    pub fn for_gang(&self, gang: &PodGang) -> &dyn Backend {
        let labels = gang.metadata.labels.as_ref();
        let name = labels.and_then(|labels| labels.get(labels::SCHEDULER_NAME));
        name.and_then(|name| self.get(name)).unwrap_or_else(|| self.default_backend())
    }
}

#[cfg(test)]
mod tests {
    use grove_api::OperatorConfiguration;

    use super::*;

    fn registry(scheduler: &str) -> Result<Registry, RegistryError> {
        let file = format!(
            "apiVersion: operator.config.grove.io/v1alpha1\nkind: OperatorConfiguration\n{scheduler}"
        );
        Registry::new(&OperatorConfiguration::from_yaml(&file).unwrap().scheduler, &Env::system())
    }

    #[test]
    fn the_scheduler_of_kubernetes_is_always_active() {
        for configuration in ["", "scheduler: {profiles: [{name: kube-scheduler, default: true}]}"]
        {
            let registry = registry(configuration).unwrap();
            assert!(registry.get(DEFAULT_SCHEDULER).is_some());
            assert_eq!(registry.default_backend().name(), DEFAULT_SCHEDULER);
            assert!(registry.get("kai-scheduler").is_none());
        }
    }

    #[test]
    fn pods_get_the_backend_they_name_and_the_default_when_they_name_none() {
        let registry = registry("").unwrap();
        let name = |name| registry.for_pods(name).map(Backend::name);
        assert_eq!(name(None), Some(DEFAULT_SCHEDULER));
        assert_eq!(name(Some("")), Some(DEFAULT_SCHEDULER));
        assert_eq!(name(Some(DEFAULT_SCHEDULER)), Some(DEFAULT_SCHEDULER));
        assert_eq!(name(Some("volcano")), None);
    }

    #[test]
    fn gangs_with_an_unknown_label_or_none_go_to_the_default() {
        let registry = registry("").unwrap();
        let mut gang = PodGang::new("a", grove_api::pod_gang::PodGangSpec::default());
        assert_eq!(registry.for_gang(&gang).name(), DEFAULT_SCHEDULER);
        let label = (labels::SCHEDULER_NAME.to_owned(), "gone".to_owned());
        gang.metadata.labels = Some([label].into());
        assert_eq!(registry.for_gang(&gang).name(), DEFAULT_SCHEDULER);
    }

    #[test]
    fn a_profile_with_an_endpoint_is_a_program_of_its_own() {
        let endpoint = "url: 'https://crew.example.com/', caFile: /ca, tokenFile: /token, \
                        kinds: [{group: crew.example.com, version: v1, plural: crews, kind: Crew}]";
        let profile =
            format!("{{name: crew, default: true, config: {{endpoint: {{{endpoint}}}}}}}");
        let registry = registry(&format!("scheduler: {{profiles: [{profile}]}}")).unwrap();
        let crew = registry.default_backend();
        assert_eq!(crew.name(), "crew");
        assert_eq!(crew.url().as_deref(), Some("https://crew.example.com/"));
        assert_eq!(registry.get(DEFAULT_SCHEDULER).unwrap().url(), None);
        let kinds: Vec<_> = registry.kinds().iter().map(Resource::api_version).collect();
        assert_eq!(kinds, ["crew.example.com/v1"]);
    }

    #[test]
    fn a_profile_without_a_backend_is_an_error_with_its_name() {
        let error = registry("scheduler: {profiles: [{name: grove-scheduler}]}").err().unwrap();
        assert!(error.to_string().contains("\"grove-scheduler\""), "{error}");
    }
}
