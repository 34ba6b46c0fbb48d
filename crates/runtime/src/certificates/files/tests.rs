use super::super::testkit::pki;
use super::*;
use crate::health::Readiness;

/// A directory that is removed after the test.
struct Mounted(PathBuf);

impl Mounted {
    fn new(test: &str) -> Self {
        let name = format!("grove-runtime-{}-{test}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).unwrap();
        Self(directory)
    }

    fn put(&self, certificate: &str, key: &str) {
        fs::write(self.0.join(CERTIFICATE), certificate).unwrap();
        fs::write(self.0.join(KEY), key).unwrap();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn served(serving: &ServingCertificate) -> Vec<u8> {
    serving.current.load_full().map(|pair| pair.cert[0].to_vec()).unwrap_or_default()
}

#[test]
fn a_matching_pair_is_served_after_every_change() {
    let (mounted, readiness) = (Mounted::new("change"), Readiness::new());
    let serving = ServingCertificate::new(&readiness);
    let mut files = CertificateFiles::new(&mounted.0, serving.clone());

    files.check();
    assert!(!serving.ready());
    let missing = readiness.missing();
    assert!(
        missing[0].1.starts_with("cannot read") && missing[0].1.contains("tls.crt"),
        "{missing:?}"
    );

    let first = pki();
    mounted.put(&first.leaf, &first.key);
    files.check();
    assert!(serving.ready() && readiness.ready());
    let before = served(&serving);
    files.check();
    assert_eq!(served(&serving), before);

    let second = pki();
    mounted.put(&second.leaf, &second.key);
    files.check();
    assert_ne!(served(&serving), before);
}

#[test]
fn an_invalid_pair_leaves_the_old_one_in_place() {
    let (mounted, readiness) = (Mounted::new("broken"), Readiness::new());
    let serving = ServingCertificate::new(&readiness);
    let mut files = CertificateFiles::new(&mounted.0, serving.clone());
    let (pair, other) = (pki(), pki());
    mounted.put(&pair.leaf, &pair.key);
    files.check();
    let before = served(&serving);

    let cases = [
        (pair.leaf.as_str(), other.key.as_str(), "do not fit together"),
        ("", pair.key.as_str(), "there is no certificate"),
        (pair.leaf.as_str(), "garbage", "the private key is not readable PEM"),
    ];
    for (certificate, key, expected) in cases {
        mounted.put(certificate, key);
        files.check();
        assert!(files.problem.as_ref().unwrap().contains(expected), "{:?}", files.problem);
        assert_eq!(served(&serving), before);
        assert!(readiness.ready(), "the old certificate is still served");
    }

    mounted.put(&other.leaf, &other.key);
    files.check();
    assert_eq!(files.problem, None);
    assert_ne!(served(&serving), before);
}

#[tokio::test(start_paused = true)]
async fn the_directory_is_read_every_ten_seconds_until_shutdown() {
    let (mounted, readiness) = (Mounted::new("period"), Readiness::new());
    let serving = ServingCertificate::new(&readiness);
    let clock = Clock::at(jiff::Timestamp::UNIX_EPOCH);
    let shutdown = Shutdown::new();
    let files = CertificateFiles::new(&mounted.0, serving.clone());
    let change = async {
        clock.sleep(Duration::from_secs(35)).await;
        let pair = pki();
        mounted.put(&pair.leaf, &pair.key);
        readiness.until_ready().await;
        assert_eq!(clock.wall().as_second(), 40);
        shutdown.start();
    };

    tokio::join!(files.run(clock.clone(), shutdown.clone()), change);
}
