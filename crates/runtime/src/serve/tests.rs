use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use axum::routing::get;
use futures::FutureExt;
use http::Request;
use http_body_util::BodyExt;
use hyper::client::conn::http1;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

use super::*;
use crate::certificates::testkit::{Pki, connect, exchange, exchange_h2, pki};
use crate::clock::Clock;
use crate::process::Process;

/// A server in its own process.
struct World {
    address: SocketAddr,
    certificate: ServingCertificate,
    stage: Stage,
    process: Process,
    stopped: Arc<Notify>,
}

async fn world(config: ServeConfig, router: Router, tls: Option<&Pki>) -> World {
    let server = Server::bind(config).await.unwrap();
    let env = Env::new(Clock::system(), 1);
    let certificate = ServingCertificate::new(&env.readiness);
    if let Some(pki) = tls {
        certificate.install(pki.leaf.as_bytes(), pki.key.as_bytes()).unwrap();
    }
    let mut process = Process::new(env.clone(), Duration::from_secs(5));
    let (stage, stopped) = (process.stage("server"), Arc::new(Notify::new()));
    let address = server.address();
    let (shown, own_stage, done) =
        (tls.map(|_| certificate.clone()), stage.clone(), stopped.clone());
    stage.spawn(|_| async move {
        server.run(router, shown, env, own_stage).await;
        done.notify_one();
    });
    World { address, certificate, stage, process, stopped }
}

fn loopback() -> ServeConfig {
    ServeConfig::new("tests", "127.0.0.1", 0)
}

fn hello() -> Router {
    Router::new().route("/", get(|| async { "hello" }))
}

fn request(path: &str) -> Request<Body> {
    Request::get(path).header("host", "localhost").body(Body::empty()).unwrap()
}

#[tokio::test]
async fn both_versions_of_http_are_served_over_tls() {
    let pki = pki();
    let world = world(loopback(), hello(), Some(&pki)).await;

    assert_eq!(exchange(world.address, &pki.ca, request("/")).await, (200, "hello".into()));
    let h2 = request("https://localhost/");
    assert_eq!(exchange_h2(world.address, &pki.ca, h2).await, (200, "hello".into()));
}

#[tokio::test]
async fn without_a_certificate_plain_http_is_served() {
    let world = world(loopback(), hello(), None).await;
    let mut stream = TcpStream::connect(world.address).await.unwrap();

    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();

    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello"), "{answer}");
}

#[tokio::test]
async fn new_connections_get_a_new_certificate_and_old_ones_continue() {
    let (old, new) = (pki(), pki());
    let world = world(loopback(), hello(), Some(&old)).await;
    let stream = connect(world.address, &old.ca, b"http/1.1").await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    world.stage.spawn(|_| async move {
        let _ = connection.await;
    });
    assert_eq!(sender.send_request(request("/")).await.unwrap().status(), 200);

    world.certificate.install(new.leaf.as_bytes(), new.key.as_bytes()).unwrap();

    assert_eq!(sender.send_request(request("/")).await.unwrap().status(), 200);
    assert_eq!(exchange(world.address, &new.ca, request("/")).await.0, 200);
    assert!(connect(world.address, &old.ca, b"http/1.1").await.is_err());
}

#[tokio::test]
async fn failed_handshakes_do_not_affect_other_clients() {
    let pki = pki();
    let config = ServeConfig { handshake_timeout: Duration::from_millis(50), ..loopback() };
    let world = world(config, hello(), Some(&pki)).await;

    let mut talker = TcpStream::connect(world.address).await.unwrap();
    talker.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut silent = TcpStream::connect(world.address).await.unwrap();

    assert_eq!(exchange(world.address, &pki.ca, request("/")).await.0, 200);
    // The server closes the silent connection.
    assert_eq!(silent.read_to_end(&mut Vec::new()).await.unwrap(), 0);
}

#[tokio::test]
async fn connections_above_the_limit_wait_for_a_place() {
    let (begun, go, ended): (Arc<Notify>, Arc<Notify>, Arc<AtomicUsize>) = Default::default();
    let config = ServeConfig { max_connections: 1, ..loopback() };
    let world = world(config, held(&begun, &go, &ended), None).await;
    let request = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let mut first = TcpStream::connect(world.address).await.unwrap();
    first.write_all(request).await.unwrap();
    begun.notified().await;
    let mut second = TcpStream::connect(world.address).await.unwrap();
    second.write_all(request).await.unwrap();

    // Time in which the second request could have started.
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert!(begun.notified().now_or_never().is_none());
    go.notify_one();
    first.read_to_end(&mut Vec::new()).await.unwrap();

    begun.notified().await;
    go.notify_one();
    second.read_to_end(&mut Vec::new()).await.unwrap();
    assert_eq!(ended.load(Ordering::SeqCst), 2);
}

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";

/// Sends a request over plain HTTP and reads the answer; the connection stays open.
async fn send_request(stream: &mut TcpStream) {
    stream.write_all(REQUEST).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"hello") {
        let read = stream.read_buf(&mut answer).await.unwrap();
        assert!(read > 0, "closed after {}", String::from_utf8_lossy(&answer));
    }
}

#[tokio::test]
async fn silent_connections_cannot_exclude_other_clients() {
    let pki = pki();
    let config = || ServeConfig { max_connections: 64, ..loopback() };
    let (webhooks, probes) =
        (world(config(), hello(), Some(&pki)).await, world(config(), hello(), None).await);
    let mut silent = Vec::new();
    for address in [webhooks.address, probes.address] {
        for number in 0..200 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            if number % 2 == 1 {
                stream.write_all(b"GET").await.unwrap();
            }
            silent.push(stream);
        }
    }
    let clock = Clock::system();
    let in_time = clock.timeout(Duration::from_secs(4), async {
        for _ in 0..10 {
            let answer = exchange(webhooks.address, &pki.ca, request("/")).await;
            assert_eq!(answer, (200, "hello".into()));
            send_request(&mut TcpStream::connect(probes.address).await.unwrap()).await;
        }
    });
    assert!(in_time.await.is_some(), "before the silent ones are disconnected");
}

#[tokio::test]
async fn the_connection_that_is_idle_longest_is_evicted() {
    let config = ServeConfig { max_connections: 2, ..loopback() };
    let world = world(config, hello(), None).await;
    let mut first = TcpStream::connect(world.address).await.unwrap();
    send_request(&mut first).await;
    let mut second = TcpStream::connect(world.address).await.unwrap();
    send_request(&mut second).await;
    send_request(&mut first).await;
    let mut third = TcpStream::connect(world.address).await.unwrap();
    send_request(&mut third).await;

    assert_eq!(second.read_to_end(&mut Vec::new()).await.unwrap(), 0, "evicted");
    send_request(&mut first).await;
    send_request(&mut third).await;
}

#[tokio::test]
async fn a_connection_without_a_request_is_closed_and_a_used_one_is_not() {
    let timeout = Duration::from_millis(100);
    let config = ServeConfig { first_request_timeout: timeout, ..loopback() };
    let world = world(config, hello(), None).await;
    let mut used = TcpStream::connect(world.address).await.unwrap();
    send_request(&mut used).await;
    for begins in [b"".as_slice(), b"GET / HTTP/1.1\r\nhost: x\r\n", b"PRI * HTTP/2.0\r\n"] {
        let mut silent = TcpStream::connect(world.address).await.unwrap();
        silent.write_all(begins).await.unwrap();
        // The system may report unread bytes as a reset.
        let _ = silent.read_to_end(&mut Vec::new()).await;
    }
    send_request(&mut used).await;
}

#[tokio::test]
async fn a_taken_address_is_an_error_that_names_it() {
    let holder = Server::bind(loopback()).await.unwrap();
    let port = holder.address().port();

    let error = Server::bind(ServeConfig { port, ..loopback() }).await.unwrap_err();

    let text = error.to_string();
    let expected = format!("cannot serve tests on 127.0.0.1:{port}: Address already in use");
    assert!(text.starts_with(&expected), "{text}");
}

/// A handler that signals its start and waits for `go`.
fn held(begun: &Arc<Notify>, go: &Arc<Notify>, ended: &Arc<AtomicUsize>) -> Router {
    let (begun, go, ended) = (begun.clone(), go.clone(), ended.clone());
    Router::new().route(
        "/",
        get(move || {
            let (begun, go, ended) = (begun.clone(), go.clone(), ended.clone());
            async move {
                begun.notify_one();
                go.notified().await;
                ended.fetch_add(1, Ordering::SeqCst);
                "done"
            }
        }),
    )
}

#[tokio::test]
async fn a_shutdown_finishes_running_requests_and_takes_no_new_ones() {
    let pki = pki();
    let (begun, go, ended) = Default::default();
    let world = world(loopback(), held(&begun, &go, &ended), Some(&pki)).await;
    let running = exchange(world.address, &pki.ca, request("/"));
    let stop = async {
        begun.notified().await;
        world.stage.shutdown().start();
        // The listener closes first; then the request may finish.
        while TcpStream::connect(world.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        go.notify_one();
        world.stopped.notified().await;
    };

    let (answer, ()) = tokio::join!(running, stop);

    assert_eq!(answer, (200, "done".into()));
    assert_eq!(ended.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_request_that_outlives_the_drain_is_dropped() {
    let (begun, go, ended) = Default::default();
    let config = ServeConfig { drain: Duration::from_millis(20), ..loopback() };
    let world = world(config, held(&begun, &go, &ended), None).await;
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    begun.notified().await;

    world.stage.shutdown().start();
    world.stopped.notified().await;

    assert_eq!(stream.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    assert_eq!(ended.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn dropping_the_process_closes_listener_and_connections() {
    let pki = pki();
    let (begun, go, ended) = Default::default();
    let world = world(loopback(), held(&begun, &go, &ended), Some(&pki)).await;
    let stream = connect(world.address, &pki.ca, b"h2").await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http2::handshake(
        hyper_util::rt::TokioExecutor::new(),
        TokioIo::new(stream),
    )
    .await
    .unwrap();
    let answer = async {
        let response = sender.send_request(request("https://localhost/")).await?;
        response.into_body().collect().await.map(drop)
    };
    let crash = async {
        begun.notified().await;
        drop(world.process);
    };

    let (answer, (), _) = tokio::join!(answer, crash, connection);

    assert!(answer.is_err());
    assert_eq!(Arc::strong_count(&begun), 1, "the handler was dropped");
    assert!(TcpStream::connect(world.address).await.is_err());
}

#[tokio::test]
async fn a_panicking_handler_loses_its_connection_only() {
    let panics = || async {
        assert!(std::hint::black_box(false), "out of luck");
    };
    let router = hello().route("/panic", get(panics));
    let world = world(loopback(), router, None).await;
    let mut unlucky = TcpStream::connect(world.address).await.unwrap();
    unlucky.write_all(b"GET /panic HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    assert_eq!(unlucky.read_to_end(&mut Vec::new()).await.unwrap(), 0);

    let mut next = TcpStream::connect(world.address).await.unwrap();
    next.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    next.read_to_string(&mut answer).await.unwrap();

    assert!(answer.ends_with("hello"), "{answer}");
    assert!(world.process.run().now_or_never().is_none(), "the process continues");
}

#[tokio::test]
async fn an_old_connection_is_closed_after_its_running_request() {
    let pki = pki();
    let (begun, go, ended): (Arc<Notify>, Arc<Notify>, Arc<AtomicUsize>) = Default::default();
    let config = ServeConfig { max_age: Duration::ZERO, ..loopback() };
    let world = world(config, held(&begun, &go, &ended), Some(&pki)).await;
    let stream = connect(world.address, &pki.ca, b"http/1.1").await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    let answer = async {
        let response = sender.send_request(request("/")).await.unwrap();
        response.into_body().collect().await.unwrap().to_bytes()
    };
    let release = async {
        begun.notified().await;
        go.notify_one();
    };

    let (answer, (), closed) = tokio::join!(answer, release, connection);

    assert_eq!(&answer[..], b"done");
    assert!(closed.is_ok());
}
