//! The requests that a process sends.

use std::sync::{Arc, Mutex};

use grove_runtime::clock::Clock;
use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use tokio::sync::watch;
use tower::BoxError;

use crate::DEADLINE;

/// A request without its body.
#[derive(Clone, Debug)]
pub struct Sent {
    pub method: Method,
    pub path: String,
    pub query: String,
}

impl Sent {
    fn of(request: &Request<Body>) -> Self {
        let uri = request.uri();
        Self {
            method: request.method().clone(),
            path: uri.path().to_owned(),
            query: uri.query().unwrap_or_default().to_owned(),
        }
    }

    /// Whether it changes something besides the lease. A review of the own user stores nothing.
    pub fn is_write(&self) -> bool {
        let is_no_change =
            ["/leases", "/selfsubjectreviews"].iter().any(|one| self.path.contains(one));
        self.method != Method::GET && !is_no_change
    }

    pub fn creates(&self, plural: &str) -> bool {
        self.method == Method::POST && self.path.ends_with(&format!("/{plural}"))
    }

    pub fn registers(&self, webhook: &str) -> bool {
        self.method == Method::PATCH && self.path.ends_with(webhook)
    }

    pub fn is_in(&self, namespace: &str) -> bool {
        self.path.contains(&format!("/namespaces/{namespace}/"))
    }
}

impl std::fmt::Display for Sent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

type Choice = Box<dyn Fn(&Sent) -> bool + Send>;

/// The recorded requests of a process.
#[derive(Clone, Default)]
pub struct Requests {
    all: Arc<watch::Sender<Vec<Sent>>>,
    /// Which requests get lost.
    choice: Arc<Mutex<Option<Choice>>>,
    lost: Arc<watch::Sender<Vec<Request<Vec<u8>>>>>,
}

impl Requests {
    /// A client that records every request and sends it through `client`.
    pub fn of(&self, client: Client) -> Client {
        let requests = self.clone();
        let namespace = client.default_namespace().to_owned();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (client, requests) = (client.clone(), requests.clone());
            async move {
                let sent = Sent::of(&request);
                let is_lost = requests.is_lost(&sent);
                requests.all.send_modify(|all| all.push(sent));
                if is_lost {
                    requests.keep(request).await?;
                    // The sender gets no answer.
                    return std::future::pending().await;
                }
                client.send(request).await.map_err(BoxError::from)
            }
        });
        Client::new(service, namespace)
    }

    fn is_lost(&self, sent: &Sent) -> bool {
        self.choice.lock().unwrap().as_ref().is_some_and(|choice| choice(sent))
    }

    async fn keep(&self, request: Request<Body>) -> Result<(), BoxError> {
        let (parts, body) = request.into_parts();
        let bytes = body.collect_bytes().await?.to_vec();
        self.lost.send_modify(|lost| lost.push(Request::from_parts(parts, bytes)));
        Ok(())
    }

    /// From now on these requests do not arrive and get no answer. [`Self::take_lost`] returns them.
    pub fn lose(&self, choice: impl Fn(&Sent) -> bool + Send + 'static) {
        *self.choice.lock().unwrap() = Some(Box::new(choice));
    }

    /// Waits until so many requests are lost, and takes them.
    pub async fn take_lost(&self, count: usize) -> Vec<Request<Vec<u8>>> {
        let mut lost = self.lost.subscribe();
        let enough = lost.wait_for(|lost| lost.len() >= count);
        let in_time = Clock::system().timeout(DEADLINE, enough).await;
        drop(in_time.unwrap_or_else(|| panic!("fewer than {count} such requests were sent")));
        self.lost.send_replace(Vec::new())
    }

    /// The number of requests so far, to count from.
    pub fn mark(&self) -> usize {
        self.all.borrow().len()
    }

    /// Waits until so many requests were sent in all.
    pub async fn until_mark(&self, mark: usize) {
        drop(self.all.subscribe().wait_for(|all| all.len() >= mark).await.unwrap());
    }

    /// The requests since a mark.
    pub fn since(&self, mark: usize) -> Vec<Sent> {
        self.all.borrow()[mark..].to_vec()
    }

    /// The chosen writes since a mark.
    pub fn writes_since(&self, mark: usize, choice: impl Fn(&Sent) -> bool) -> Vec<String> {
        let since = self.since(mark);
        since.iter().filter(|sent| sent.is_write() && choice(sent)).map(Sent::to_string).collect()
    }

    /// Waits until such a request was sent.
    pub async fn until(&self, is: impl Fn(&Sent) -> bool) {
        drop(self.all.subscribe().wait_for(|all| all.iter().any(&is)).await.unwrap());
    }

    /// Waits until so many writes were sent since a mark.
    pub async fn until_writes(&self, mark: usize, count: usize) {
        let mut all = self.all.subscribe();
        let writes = |all: &Vec<Sent>| all[mark..].iter().filter(|sent| sent.is_write()).count();
        drop(all.wait_for(|all| writes(all) >= count).await.unwrap());
    }
}
