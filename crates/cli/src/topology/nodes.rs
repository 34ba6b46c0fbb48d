//! Nodes, and what is free on each of them.

use std::collections::BTreeMap;

use grove_core::quantity::Quantity;
use grove_core::topology::NodeLabels;
use k8s_openapi::api::core::v1::{Container, Node, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Written;

/// Amounts, by resource.
pub(super) type Amounts = BTreeMap<String, Quantity>;

/// The resource that every pod needs one of.
pub(super) const PODS: &str = "pods";

/// A node as the cluster describes it.
#[derive(Clone, Debug)]
pub(super) struct ObservedNode {
    pub(super) name: String,
    pub(super) labels: NodeLabels,
    /// Why no pod is scheduled to it.
    pub(super) unavailable: Option<&'static str>,
    pub(super) allocatable: Amounts,
}

impl From<&Node> for ObservedNode {
    fn from(node: &Node) -> Self {
        let spec = node.spec.as_ref();
        let status = node.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let mut conditions = conditions.iter();
        let is_ready = conditions.any(|one| one.type_ == "Ready" && one.status == "True");
        let is_unschedulable = spec.and_then(|spec| spec.unschedulable).unwrap_or_default();
        Self {
            name: node.metadata.name.clone().unwrap_or_default(),
            labels: node.metadata.labels.clone().unwrap_or_default(),
            unavailable: match (is_ready, is_unschedulable) {
                (false, _) => Some("not ready"),
                (true, true) => Some("unschedulable"),
                (true, false) => None,
            },
            allocatable: amounts(status.and_then(|status| status.allocatable.as_ref())),
        }
    }
}

/// What a pod takes of its node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Requests {
    node: String,
    amounts: Amounts,
}

impl Requests {
    /// As the scheduler counts them. Nothing for a pod without a node.
    pub(super) fn of(pod: &Pod) -> Option<Self> {
        let spec = pod.spec.as_ref()?;
        let node = spec.node_name.clone().filter(|node| !node.is_empty())?;
        Some(Self { node, amounts: requests(spec) })
    }
}

/// Init containers run one after the other before the containers, those that are restarted beside all that
/// follow. Requests of the pod itself replace those of its containers.
fn requests(spec: &PodSpec) -> Amounts {
    let (mut beside, mut highest) = (Amounts::new(), Amounts::new());
    for container in spec.init_containers.iter().flatten() {
        let own = of_container(container);
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut beside, &own);
        } else {
            let mut step = beside.clone();
            add(&mut step, &own);
            raise(&mut highest, step);
        }
    }
    let mut total = beside;
    for container in &spec.containers {
        add(&mut total, &of_container(container));
    }
    raise(&mut total, highest);
    let of_pod = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    total.extend(amounts(of_pod));
    add(&mut total, &amounts(spec.overhead.as_ref()));
    total.insert(PODS.to_owned(), Quantity::ONE);
    total
}

fn of_container(container: &Container) -> Amounts {
    amounts(container.resources.as_ref().and_then(|resources| resources.requests.as_ref()))
}

fn amounts(written: Option<&BTreeMap<String, Written>>) -> Amounts {
    let read = |(name, quantity): (&String, &Written)| {
        // The API server stores no other text.
        Some((name.clone(), Quantity::parse(&quantity.0).ok()?))
    };
    written.into_iter().flatten().filter_map(read).collect()
}

/// Adds amounts to others.
pub(super) fn add(to: &mut Amounts, amounts: &Amounts) {
    for (name, amount) in amounts {
        let sum = to.entry(name.clone()).or_default();
        *sum = *sum + *amount;
    }
}

fn raise(to: &mut Amounts, amounts: Amounts) {
    for (name, amount) in amounts {
        let highest = to.entry(name).or_default();
        *highest = amount.max(*highest);
    }
}

/// A node, and what is free on it.
#[derive(Clone, Debug)]
pub(super) struct Capacity {
    pub(super) observed: ObservedNode,
    pub(super) free: Amounts,
}

/// Subtracts the requests of pods from what their nodes have. Nothing is free on unavailable nodes.
pub(super) fn with_free(nodes: Vec<ObservedNode>, pods: &[Requests]) -> Vec<Capacity> {
    let mut used = BTreeMap::<&str, Amounts>::new();
    for pod in pods {
        add(used.entry(&pod.node).or_default(), &pod.amounts);
    }
    let free = |node: &ObservedNode| {
        let used = used.get(node.name.as_str());
        let left = |(name, amount): (&String, &Quantity)| {
            let used = used.and_then(|used| used.get(name)).copied().unwrap_or_default();
            let left = if node.unavailable.is_some() { Quantity::ZERO } else { *amount - used };
            (name.clone(), left.max(Quantity::ZERO))
        };
        node.allocatable.iter().map(left).collect()
    };
    nodes.into_iter().map(|observed| Capacity { free: free(&observed), observed }).collect()
}
