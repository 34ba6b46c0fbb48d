//! Serves an axum [`Router`] over TLS or plain HTTP.
//!
//! The accept loop is our own: it replaces certificates under load, limits connections, gives handshakes
//! and first requests a deadline and drains on shutdown. When all [`Places`] are taken, a new connection
//! evicts an idle one. Every server has its own places. The future of [`Server::run`] owns the listener and
//! a task of its [`Stage`] each connection, so dropping the process closes all of them. A handler that
//! panics loses its connection, not the process.
//!
//! HTTP keep-alive uses tokio's timers; every deadline of a request uses the clock of the [`Env`].

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

/// Pause after a failed accept: the usual cause is a lack of file descriptors, which an immediate retry
/// does not change.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// How long a connection may be idle after its last request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// Address and limits of a server.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// Name in logs and errors: `webhooks`, `metrics`.
    pub name: &'static str,
    /// Host name or address; empty for all addresses of the machine.
    pub host: String,
    /// Port; 0 lets the system choose one.
    pub port: u16,
    /// Timeout of a TLS handshake.
    pub handshake_timeout: Duration,
    /// How long a new connection may stay without a request.
    pub first_request_timeout: Duration,
    /// Maximum number of connections. A further one evicts the one that has been idle longest, or is
    /// accepted later if all have requests in flight.
    pub max_connections: usize,
    /// Age at which the client is asked to open a new connection. An API server sends all reviews over one
    /// HTTP/2 connection, so without this one replica would get all of them.
    pub max_age: Duration,
    /// How long requests may take after their connection starts to close.
    pub drain: Duration,
}

impl ServeConfig {
    /// `host:port` with the default limits.
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
    /// The address is in use, not local, or not permitted.
    #[error("cannot serve {name} on {address}: {source}; choose another address or port")]
    Bind {
        /// Name of the server.
        name: &'static str,
        /// The address.
        address: String,
        /// Error of the operating system.
        source: io::Error,
    },
}

/// A server that listens and does not answer yet.
#[derive(Debug)]
pub struct Server {
    config: ServeConfig,
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Binds the address. Clients that connect from now on wait for [`Server::run`].
    pub async fn bind(config: ServeConfig) -> Result<Self, ServeError> {
        let port = config.port;
        let bound = if config.host.is_empty() {
            // The unspecified IPv6 address also accepts IPv4 clients, if the machine has IPv6.
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

    /// The address, with the port that the system chose for port 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stage` stops, then finishes the current requests within the drain deadline. With a
    /// certificate over TLS, without one over plain HTTP.
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

/// What all connections share.
#[derive(Clone)]
struct Connections {
    config: ServeConfig,
    router: Router,
    tls: Option<TlsAcceptor>,
    env: Env,
    stage: Stage,
}

impl Connections {
    /// Returns the next connection and its place, or `None` after the shutdown has started.
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
            // Answers are small and urgent.
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

    /// Failed handshakes come from clients (port scanners, clients without our CA), so they are counted and
    /// logged at debug level only.
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
        builder.http1().timer(TokioTimer::new()).header_read_timeout(IDLE_TIMEOUT);
        builder.http2().timer(TokioTimer::new()).keep_alive_interval(IDLE_TIMEOUT / 2);
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

    /// Waits until the server has to close the connection.
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

/// How the server closes a connection.
enum End {
    /// After its requests.
    InOrder,
    /// At once, because the client has sent no request; the label of the metric.
    Unused(&'static str),
}

/// The router; it counts its requests.
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

/// Runs connections and HTTP/2 streams as tasks of our stage, so that they end with the process.
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
