//! A cluster in memory and in virtual time: the API server, nodes with room for pods, and an operator
//! that can be killed. Everything the operator deletes is checked as it happens.

use std::collections::BTreeMap;
use std::time::Duration;

use grove_api::OperatorConfiguration;
use grove_operator::{Identity, OperatorError, Options, WebhookAddress};
use grove_runtime::clock::Clock;
use grove_runtime::process::Env;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::api::Api;
use grove_testbed::invariants::{delete_is_justified, is_ready, not_converged};

/// On pods that never become ready.
pub const BROKEN: &str = "test/broken";
const TICK: Duration = Duration::from_millis(100);
const START: i64 = 1_800_000_000;

pub struct SimulatedCluster {
    pub api: Api,
    pub clock: Clock,
    /// Pods that each node has room for; a node that is down has none.
    pub nodes: Vec<usize>,
    operator: Option<JoinHandle<Result<(), OperatorError>>>,
    starts: u32,
    /// What was deleted, in order: pods and cliques.
    pub deleted: Vec<Value>,
    /// The lowest number of ready pods since it was set.
    pub fewest_ready: usize,
    /// How long containers run before they are ready.
    pub start_up_seconds: u64,
    /// When the containers of pods began to run.
    started: BTreeMap<String, i64>,
    /// How far the operator's clock is ahead of that of the API server, in seconds.
    skew: i64,
    /// What the nodes have seen, and how much room there was.
    seen: (u64, Vec<usize>),
}

impl SimulatedCluster {
    pub async fn new(nodes: &[usize]) -> Self {
        Self::with_skew(nodes, 0).await
    }

    /// A cluster whose operator's clock is so many seconds ahead.
    pub async fn with_skew(nodes: &[usize], skew: i64) -> Self {
        let clock = Clock::at(Timestamp::from_second(START).unwrap());
        let api = Api::new(clock.clone());
        let mut cluster = Self {
            api,
            clock,
            nodes: nodes.to_vec(),
            operator: None,
            starts: 0,
            deleted: Vec::new(),
            fewest_ready: usize::MAX,
            start_up_seconds: 0,
            started: BTreeMap::new(),
            skew,
            seen: (u64::MAX, Vec::new()),
        };
        cluster.start();
        cluster.run(1).await;
        cluster
    }

    /// Starts the operator.
    pub fn start(&mut self) {
        let configuration = "apiVersion: operator.config.grove.io/v1alpha1\n\
                             kind: OperatorConfiguration\n\
                             leaderElection: {enabled: false}\n\
                             server: {webhooks: {certProvisionMode: manual}}\n";
        let mut configuration = OperatorConfiguration::from_yaml(configuration).unwrap();
        let server = &mut configuration.server;
        server.webhooks.endpoint.port = 0;
        server.health_probes.port = 0;
        server.metrics.port = 0;
        self.starts += 1;
        let options = Options {
            configuration,
            identity: Identity {
                instance: format!("operator-{}", self.starts),
                namespace: "grove-system".to_owned(),
                service_account: "grove-operator".to_owned(),
            },
            webhooks: WebhookAddress::Service,
            install_crds: false,
            init_image: Some("grove-initc:test".to_owned()),
        };
        let wall = self.clock.wall() + SignedDuration::from_secs(self.skew);
        let clock = if self.skew == 0 { self.clock.clone() } else { Clock::at(wall) };
        let env = Env::new(clock, u64::from(self.starts));
        let run = grove_operator::run(self.api.client(), options, env);
        self.operator = Some(tokio::task::spawn(run));
    }

    /// Kills the operator, wherever it is.
    pub fn kill(&mut self) {
        if let Some(operator) = self.operator.take() {
            operator.abort();
        }
    }

    pub fn is_running(&self) -> bool {
        self.operator.is_some()
    }

    pub fn now(&self) -> i64 {
        self.clock.wall().as_second() - START
    }

    /// Lets time pass.
    pub async fn run(&mut self, seconds: u64) {
        for _ in 0..seconds * 10 {
            self.tick().await;
        }
    }

    /// Lets a moment pass: the operator reacts, then the nodes.
    pub async fn tick(&mut self) {
        self.clock.sleep(TICK).await;
        if let Some(operator) = &self.operator {
            assert!(!operator.is_finished(), "the operator has ended");
        }
        for change in self.api.take_changes() {
            if change.verb == "delete" && ["pods", "podcliques"].contains(&change.plural.as_str()) {
                let among: Vec<&Value> = change.among.iter().collect();
                let at = change.at + SignedDuration::from_secs(self.skew);
                let had_reason = delete_is_justified(&change.before, &among, at);
                assert!(had_reason, "deleted what is wanted, current and well: {}", change.before);
                self.deleted.push(change.before);
            }
        }
        let seen = (self.api.version(), self.nodes.clone());
        if seen == self.seen && self.start_up_seconds == 0 {
            return;
        }
        self.nodes_act();
        self.seen = seen;
        let ready = self.api.all("pods").iter().filter(|pod| is_ready(pod)).count();
        self.fewest_ready = self.fewest_ready.min(ready);
    }

    fn nodes_act(&mut self) {
        let pods = self.api.all("pods");
        let mut used = BTreeMap::<usize, usize>::new();
        for pod in &pods {
            let name = pod["metadata"]["name"].as_str().unwrap();
            if !pod["metadata"]["deletionTimestamp"].is_null() {
                self.api.remove_pod(name);
            } else if let Some(node) = node_of(pod) {
                *used.entry(node).or_default() += 1;
            }
        }
        let staying = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        for pod in staying {
            let name = pod["metadata"]["name"].as_str().unwrap();
            let gates = pod["spec"]["schedulingGates"].as_array();
            if gates.is_some_and(|gates| !gates.is_empty()) {
                continue;
            }
            if node_of(pod).is_none() {
                let has_room =
                    |node: &usize| used.get(node).copied().unwrap_or(0) < self.nodes[*node];
                let Some(node) = (0..self.nodes.len()).find(has_room) else { continue };
                *used.entry(node).or_default() += 1;
                self.api.edit("pods", name, |pod| {
                    pod["spec"]["nodeName"] = format!("node-{node}").into();
                    pod["status"]["conditions"] =
                        json!([{ "type": "PodScheduled", "status": "True" }]);
                });
            } else if pod["status"]["phase"] == "Pending"
                && pod["metadata"]["annotations"][BROKEN].is_null()
            {
                self.start_pod(name);
            } else if self.started.get(name).is_some_and(|start| self.is_up(*start)) {
                self.started.remove(name);
                self.set_ready(name, true);
            }
        }
    }

    fn is_up(&self, start: i64) -> bool {
        self.now() - start >= i64::try_from(self.start_up_seconds).unwrap()
    }

    /// The containers of a pod run, and are ready at once or later.
    fn start_pod(&mut self, name: &str) {
        if self.start_up_seconds == 0 {
            self.set_ready(name, true);
            return;
        }
        self.started.insert(name.to_owned(), self.now());
        self.api.edit("pods", name, |pod| {
            pod["status"]["phase"] = json!("Running");
            pod["status"]["containerStatuses"] =
                json!([{ "name": "c", "ready": false, "started": true }]);
        });
    }

    /// The containers of a pod are well, or have failed.
    pub fn set_ready(&self, pod: &str, ready: bool) {
        self.api.edit("pods", pod, |pod| {
            let (word, code) = if ready { ("True", 0) } else { ("False", 1) };
            pod["status"] = json!({
                "phase": "Running",
                "conditions": [
                    { "type": "PodScheduled", "status": "True" },
                    { "type": "Ready", "status": word },
                ],
                "containerStatuses": [{ "name": "c", "ready": ready, "started": ready,
                    "lastState": { "terminated": { "exitCode": code } } }],
            });
        });
    }

    /// A node is lost with all its pods.
    pub fn lose(&mut self, node: usize) {
        self.nodes[node] = 0;
        for pod in self.api.all("pods") {
            if node_of(&pod) == Some(node) {
                self.api.delete("pods", pod["metadata"]["name"].as_str().unwrap());
            }
        }
    }

    // === what users do ===

    pub fn create(&self, set: Value) {
        self.api.create("/apis/grove.io/v1alpha1/namespaces/default/podcliquesets", set);
    }

    pub fn edit_set(&self, change: impl FnOnce(&mut Value)) {
        assert!(self.api.edit("podcliquesets", "x", change));
    }

    /// Gives a clique, or all of them, another template.
    pub fn set_image(&self, clique: Option<usize>, image: &str) {
        self.edit_set(|set| {
            let cliques = set["spec"]["template"]["cliques"].as_array_mut().unwrap();
            for (index, one) in cliques.iter_mut().enumerate() {
                if clique.is_none_or(|clique| clique == index) {
                    one["spec"]["podSpec"]["containers"][0]["image"] = image.into();
                }
            }
        });
    }

    /// Waits until the sets have converged; panics with the first difference.
    pub async fn until_settled(&mut self, seconds: u64) {
        let mut reason = String::new();
        let mut version = u64::MAX;
        for _ in 0..seconds * 10 {
            self.tick().await;
            if version == self.api.version() {
                continue;
            }
            version = self.api.version();
            match self.api.look(not_converged) {
                None => return,
                Some(what) => reason = what,
            }
        }
        panic!("not settled after {seconds} s: {reason}\n{}", self.summary());
    }

    /// A line per object.
    pub fn summary(&self) -> String {
        let mut lines = Vec::new();
        for plural in ["podcliquesets", "podcliquescalinggroups", "podcliques"] {
            for one in self.api.all(plural) {
                let name = &one["metadata"]["name"];
                let replicas = &one["spec"]["replicas"];
                lines.push(format!("{plural} {name} replicas {replicas} {}", one["status"]));
            }
        }
        for pod in self.api.all("pods") {
            let labels = &pod["metadata"]["labels"];
            let hash = &labels["grove.io/pod-template-hash"];
            let (node, gates) = (&pod["spec"]["nodeName"], &pod["spec"]["schedulingGates"]);
            let name = &pod["metadata"]["name"];
            lines.push(format!("pod {name} {hash} node {node} gates {gates} {}", is_ready(&pod)));
        }
        lines.join("\n")
    }
}

pub fn node_of(pod: &Value) -> Option<usize> {
    pod["spec"]["nodeName"].as_str()?.strip_prefix("node-")?.parse().ok()
}
