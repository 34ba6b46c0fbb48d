use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use tower::ServiceExt;

use super::*;

async fn get_page(router: &Router, path: &str) -> (u16, Vec<u8>) {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let (parts, body) = router.clone().oneshot(request).await.unwrap().into_parts();
    (parts.status.as_u16(), body.collect().await.unwrap().to_bytes().to_vec())
}

#[tokio::test(start_paused = true)]
async fn a_profile_takes_the_requested_time_and_names_threads() {
    let clock = Clock::at(jiff::Timestamp::UNIX_EPOCH);
    let router = router(clock.clone());

    let (code, body) = get_page(&router, "/debug/pprof/profile?seconds=7").await;

    assert_eq!(code, 200);
    assert_eq!(clock.wall().as_second(), 7);
    let text = String::from_utf8_lossy(&body);
    let name = std::fs::read_to_string("/proc/thread-self/comm").unwrap();
    assert!(text.contains("nanoseconds") && text.contains(name.trim()), "{text}");
}

#[tokio::test(start_paused = true)]
async fn profiles_do_not_overlap_and_have_a_maximum_time() {
    let router = router(Clock::at(jiff::Timestamp::UNIX_EPOCH));

    let (first, second) = tokio::join!(
        get_page(&router, "/debug/pprof/profile?seconds=5"),
        get_page(&router, "/debug/pprof/profile?seconds=5"),
    );

    assert_eq!((first.0, second.0), (200, 429));
    for seconds in ["0", "121", "-1", "soon", ""] {
        let (code, _) = get_page(&router, &format!("/debug/pprof/profile?seconds={seconds}")).await;
        assert_eq!(code, 400, "{seconds}");
    }
}

#[tokio::test]
async fn the_index_names_the_pages_and_the_runtime_page_has_numbers() {
    let router = router(Clock::system());

    let (code, index) = get_page(&router, "/debug/pprof/").await;
    assert_eq!(code, 200);
    assert!(String::from_utf8_lossy(&index).contains("/debug/pprof/runtime"));

    let (code, page) = get_page(&router, "/debug/pprof/runtime").await;
    let page = String::from_utf8_lossy(&page).into_owned();
    assert_eq!(code, 200);
    assert!(page.contains("VmRSS:") && page.contains("tokio tasks:"), "{page}");
}
