//! Serves an axum [`Router`] over TLS or plain HTTP.
//!
//! The accept loop is our own: it swaps certificates under load, caps connections, gives handshakes and
//! first requests a deadline and drains on shutdown. When all [`Places`] are taken, a new connection
//! evicts an idle one. Every server has places of its own. The listener lives in the future that
//! [`Server::run`] returns and every connection in a task of its [`Stage`], so dropping the process
//! closes all of them. A handler that panics loses its connection, not the process.
//!
//! The connection timers of HTTP keep-alive are tokio's own; every deadline that decides about a
//! request uses the clock of the [`Env`].

mod places;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use axum::Router;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use self::places::{Answer, Place, Places, Requests};
use crate::certificates::ServingCertificate;
use crate::process::{Env, Stage};
use crate::tasks::{Spawner, panic_message};

/// Pause after a failed accept: the usual cause is a process out of file descriptors, and trying
/// again at once would only burn the processor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// A client that has sent requests and sends no more for this long is disconnected.
const IDLE: Duration = Duration::from_secs(120);

/// Where and how to serve.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// What is served, for logs and errors: `webhooks`, `metrics`.
    pub name: &'static str,
    /// Host name or address; empty for every address of the machine.
    pub host: String,
    /// Port; 0 lets the system choose one.
    pub port: u16,
    /// How long a TLS handshake may take.
    pub handshake_timeout: Duration,
    /// How long a connection may last without a request.
    pub first_request_timeout: Duration,
    /// Connections served at once. A further one evicts the one that is idle for the longest time, or
    /// waits to be accepted while all have requests in flight.
    pub max_connections: usize,
    /// How long a connection is used before the client is asked to open another one. An API server
    /// sends every review over one HTTP/2 connection, so without this one replica would get all of
    /// them until it ends.
    pub max_age: Duration,
    /// How long running requests may take once their connection is to be closed.
    pub drain: Duration,
}

impl ServeConfig {
    /// `host:port` with the usual limits.
    pub fn new(name: &'static str, host: impl Into<String>, port: u16) -> Self {
        Self {
            name,
            host: host.into(),
            port,
            handshake_timeout: Duration::from_secs(5),
            first_request_timeout: Duration::from_secs(5),
            max_connections: 512,
            max_age: Duration::from_secs(600),
            drain: Duration::from_secs(5),
        }
    }
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is taken, not ours, or may not be used.
    #[error("cannot serve {name} on {address}: {source}; choose another address or port")]
    Bind {
        /// What was to be served.
        name: &'static str,
        /// Where.
        address: String,
        /// What the system says.
        source: io::Error,
    },
}

/// A server that listens already and does not answer yet.
#[derive(Debug)]
pub struct Server {
    config: ServeConfig,
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Takes the address. Clients that connect from now on wait for [`Server::run`].
    pub async fn bind(config: ServeConfig) -> Result<Self, ServeError> {
        let port = config.port;
        let bound = if config.host.is_empty() {
            // The unspecified IPv6 address takes IPv4 clients as well, where there is IPv6 at all.
            match TcpListener::bind(("::", port)).await {
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                    TcpListener::bind(("0.0.0.0", port)).await
                }
                bound => bound,
            }
        } else {
            TcpListener::bind((config.host.as_str(), port)).await
        };
        let bound = bound.and_then(|listener| Ok((listener.local_addr()?, listener)));
        match bound {
            Ok((address, listener)) => Ok(Self { config, listener, address }),
            Err(source) => {
                let address = format!("{}:{port}", config.host);
                Err(ServeError::Bind { name: config.name, address, source })
            }
        }
    }

    /// The address, with the port the system chose if it was asked to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests until `stage` is to stop, then finishes the running ones within the deadline.
    /// With a certificate over TLS, without one over plain HTTP.
    pub async fn run(
        self,
        router: Router,
        certificate: Option<ServingCertificate>,
        env: Env,
        stage: Stage,
    ) {
        let config = &self.config;
        tracing::info!(
            serving = config.name, address = %self.address, tls = certificate.is_some(), "serving"
        );
        let places = Places::new(config.max_connections);
        let connections = Connections {
            config: config.clone(),
            router,
            tls: certificate.map(|certificate| TlsAcceptor::from(certificate.server_config())),
            env,
            stage,
        };
        while let Some((stream, place)) = connections.accept(&self.listener, &places).await {
            connections.start(stream, place);
        }
        drop(self.listener);
        // Every connection ends at its drain deadline at the latest.
        places.all_left().await;
        tracing::info!(serving = config.name, "stopped serving");
    }
}

/// What every connection needs.
#[derive(Clone)]
struct Connections {
    config: ServeConfig,
    router: Router,
    tls: Option<TlsAcceptor>,
    env: Env,
    stage: Stage,
}

impl Connections {
    /// The next connection and its place, or `None` when no more are wanted.
    async fn accept(&self, listener: &TcpListener, places: &Places) -> Option<(TcpStream, Place)> {
        let next = async {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => return (stream, places.take().await),
                    Err(error) => {
                        tracing::warn!(serving = self.config.name, %error, "cannot accept connections");
                        self.env.clock.sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        };
        tokio::select! {
            biased;
            () = self.stage.shutdown().requested() => None,
            accepted = next => Some(accepted),
        }
    }

    fn start(&self, stream: TcpStream, place: Place) {
        let connections = self.clone();
        OwnTasks::of(self).execute(async move {
            // Answers are small and wanted at once.
            let _ = stream.set_nodelay(true);
            match connections.tls.clone() {
                None => {
                    connections.count("accepted");
                    connections.talk(stream, &place).await;
                }
                Some(tls) => connections.talk_tls(&tls, stream, &place).await,
            }
        });
    }

    fn count(&self, result: &'static str) {
        self.env.metrics.connection(self.config.name, result);
    }

    /// A failed handshake is the client's affair (port scanners, clients without our CA), so it is
    /// counted, but not worth more than a debug line.
    async fn talk_tls(&self, tls: &TlsAcceptor, stream: TcpStream, place: &Place) {
        let handshake = self.env.clock.timeout(self.config.handshake_timeout, tls.accept(stream));
        let handshake = tokio::select! {
            biased;
            handshake = handshake => handshake,
            () = self.stage.shutdown().requested() => return,
            () = place.evicted() => return self.count("evicted"),
        };
        match handshake {
            Some(Ok(stream)) => {
                self.count("accepted");
                Box::pin(self.talk(stream, place)).await;
            }
            Some(Err(error)) => {
                self.count("refused");
                tracing::debug!(serving = self.config.name, %error, "TLS handshake failed");
            }
            None => {
                self.count("timeout");
                tracing::debug!(serving = self.config.name, "TLS handshake took too long");
            }
        }
    }

    async fn talk<S>(&self, stream: S, place: &Place)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut builder = auto::Builder::new(OwnTasks::of(self));
        builder.http1().timer(TokioTimer::new()).header_read_timeout(IDLE);
        builder.http2().timer(TokioTimer::new()).keep_alive_interval(IDLE / 2);
        let router = TowerToHyperService::new(self.router.clone());
        let service = Counted { router, requests: place.requests() };
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        let ended = tokio::select! {
            biased;
            ended = connection.as_mut() => Some(ended),
            end = self.end(place) => {
                if let End::Unused(result) = end {
                    return self.count(result);
                }
                connection.as_mut().graceful_shutdown();
                self.env.clock.timeout(self.config.drain, connection.as_mut()).await
            }
        };
        match ended {
            Some(Ok(())) => {}
            Some(Err(error)) => {
                tracing::debug!(serving = self.config.name, %error, "connection ended with an error");
            }
            None => tracing::warn!(
                serving = self.config.name,
                "a request did not finish in time and was dropped"
            ),
        }
    }

    /// Waits until a connection has to end.
    async fn end(&self, place: &Place) -> End {
        let clock = &self.env.clock;
        let without_request = async {
            clock.sleep(self.config.first_request_timeout).await;
            if place.is_used() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = self.stage.shutdown().requested() => End::InOrder,
            () = clock.sleep(self.config.max_age) => End::InOrder,
            () = place.evicted() => {
                if place.is_used() { End::InOrder } else { End::Unused("evicted") }
            }
            () = without_request => End::Unused("timeout"),
        }
    }
}

/// How a connection ends that the client does not end.
enum End {
    /// After its requests.
    InOrder,
    /// At once, because the client has not sent a request; counted as this.
    Unused(&'static str),
}

/// The router, with its requests counted.
struct Counted {
    router: TowerToHyperService<Router>,
    requests: Requests,
}

impl Service<Request<Incoming>> for Counted {
    type Response = Response<Answer>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let in_flight = self.requests.begin();
        let answer = self.router.call(request);
        Box::pin(async move { Ok(answer.await?.map(|body| Answer::new(body, in_flight))) })
    }
}

/// Runs connections and the streams of HTTP/2 as tasks of our stage, so that they end with the
/// process.
#[derive(Clone)]
struct OwnTasks {
    serving: &'static str,
    spawner: Spawner,
}

impl OwnTasks {
    fn of(connections: &Connections) -> Self {
        Self { serving: connections.config.name, spawner: connections.stage.spawner().clone() }
    }
}

impl<F> Executor<F> for OwnTasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, task: F) {
        let serving = self.serving;
        self.spawner.spawn(async move {
            if let Err(panic) = AssertUnwindSafe(task).catch_unwind().await {
                let panic = panic_message(&*panic);
                tracing::error!(serving, panic, "a request handler panicked");
            }
        });
    }
}

#[cfg(test)]
mod tests;
