//! The socket and its two sides, with a manager of no containers behind it.

use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::*;
use crate::api::{Change, Request};
use crate::client::Client;
use crate::exit::Stop;
use crate::report;

/// Answers what it must, and counts.
#[derive(Default)]
struct Fake {
    changes: Mutex<Vec<Change>>,
    statuses: AtomicUsize,
}

impl Manager for Fake {
    fn status(&self) -> Status {
        self.statuses.fetch_add(1, Ordering::Relaxed);
        Status {
            version: report::VERSION,
            daemon: report::Daemon {
                pid: 1,
                version: "0".into(),
                started_at: 2,
                state: "/x".into(),
                warnings: Vec::new(),
            },
            devices: Vec::new(),
            containers: Vec::new(),
        }
    }

    fn processes(&self, container: Option<&str>) -> Result<Vec<report::Process>, Refused> {
        match container {
            None => Ok(Vec::new()),
            Some(name) => Err(Refused {
                kind: Kind::NotFound,
                text: format!("there is no container {name}"),
            }),
        }
    }

    fn why(&self, _: &str) -> Result<report::Why, Refused> {
        panic!("a fault of the daemon")
    }

    fn set(&self, change: &Change) -> Result<report::Container, Refused> {
        self.changes.lock().push(change.clone());
        Err(Refused {
            kind: Kind::Failed,
            text: "noted".into(),
        })
    }

    fn remove(&self, _: &str) -> Result<(), Refused> {
        Ok(())
    }

    fn reload(&self) -> Result<Vec<String>, Refused> {
        Ok(vec!["nothing has changed".into()])
    }
}

struct Place {
    folder: tempfile::TempDir,
    fake: Arc<Fake>,
    server: Server,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let fake = Arc::new(Fake::default());
        let metrics: Metrics = Arc::new(|status| format!("pid {}\n", status.daemon.pid));
        let manager = Arc::clone(&fake) as Arc<dyn Manager>;
        let server = Server::start(&folder.path().join("c.sock"), None, manager, metrics).unwrap();
        Self {
            folder,
            fake,
            server,
        }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("c.sock")
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.socket()).unwrap();
        // A hang is a failure.
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        stream
    }

    fn client(&self) -> Client {
        Client::connect(&self.socket()).unwrap()
    }
}

/// What the daemon says until it closes the connection.
fn rest(mut stream: UnixStream) -> String {
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    text
}

#[test]
fn requests_are_answered_one_after_the_other() {
    let place = Place::new();
    let mut client = place.client();
    let status: Status = client.ask(&Request::Status).unwrap();
    assert_eq!(status.daemon.state, "/x");
    let text: String = client.ask(&Request::Metrics).unwrap();
    assert_eq!(text, "pid 1\n");
    let lines: Vec<String> = client.ask(&Request::Reload).unwrap();
    assert_eq!(lines, ["nothing has changed"]);
    let remove = Request::Remove {
        container: "a".into(),
    };
    client.ask::<()>(&remove).unwrap();
    let change = Change {
        container: "a".into(),
        memory: Some("1g".into()),
        ..Change::default()
    };
    let refused = client
        .ask::<report::Container>(&Request::Set(change.clone()))
        .unwrap_err();
    assert_eq!((refused.code(), refused.to_string()), (1, "noted".into()));
    assert_eq!(*place.fake.changes.lock(), [change]);
    let processes = Request::Processes {
        container: Some("b".into()),
    };
    let refused = client.ask::<Vec<report::Process>>(&processes).unwrap_err();
    assert_eq!(refused.code(), 3);
}

#[test]
fn the_socket_is_for_its_owner_alone() {
    let place = Place::new();
    let mode = fs::metadata(place.socket()).unwrap().mode();
    assert_eq!(mode & 0o777, 0o600);
    let gid = rustix::process::getegid().as_raw();
    let group = Group {
        name: gid.to_string(),
        gid,
    };
    let path = place.folder.path().join("d.sock");
    let _listener = bind(&path, Some(&group)).unwrap();
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!((metadata.mode() & 0o777, metadata.gid()), (0o660, gid));
}

#[test]
fn nonsense_is_told_and_the_next_request_answered() {
    let place = Place::new();
    let mut stream = place.connect();
    for line in [
        "",
        "nonsense",
        "{\"request\":\"rob\"}",
        "{\"request\":\"set\",\"container\":\"a\",\"memori\":\"1g\"}",
        "\u{0}",
    ] {
        stream.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
    stream.write_all(b"{\"request\":\"status\"}\n").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let text = rest(stream);
    let answers: Vec<_> = text.lines().collect();
    assert_eq!(answers.len(), 6, "{text}");
    for answer in &answers[..5] {
        assert!(answer.contains("\"kind\":\"usage\""), "{answer}");
    }
    assert!(answers[3].contains("memori"), "{text}");
    assert!(answers[5].starts_with("{\"ok\":"), "{text}");
}

#[test]
fn a_line_without_an_end_is_refused() {
    let place = Place::new();
    let mut stream = place.connect();
    let _ = stream.write_all(&vec![b'x'; 4 * MOST]);
    let text = rest(stream);
    // The daemon closes with bytes unread, so that its last words may be lost; never more than those.
    assert!(text.is_empty() || text.contains("65536 bytes"), "{text}");
    place.client().ask::<Status>(&Request::Status).unwrap();
}

#[test]
fn more_than_may_ask_are_told_and_room_is_made_when_others_go() {
    let place = Place::new();
    let mut open: Vec<_> = (0..CONNECTIONS).map(|_| place.client()).collect();
    for client in &mut open {
        client.ask::<Status>(&Request::Status).unwrap();
    }
    let refused = place.client().ask::<Status>(&Request::Status).unwrap_err();
    assert!(refused.to_string().contains("try again"), "{refused}");
    open.pop();
    let begin = Instant::now();
    while place.client().ask::<Status>(&Request::Status).is_err() {
        assert!(begin.elapsed() < Duration::from_secs(30));
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_fault_in_one_answer_ends_that_connection_alone() {
    let place = Place::new();
    let why = Request::Why {
        container: "a".into(),
    };
    let stop = place.client().ask::<report::Why>(&why).unwrap_err();
    assert!(matches!(stop, Stop::Unreachable(_)), "{stop}");
    place.client().ask::<Status>(&Request::Status).unwrap();
    let begin = Instant::now();
    while !place.server.shared.connections.lock().open.is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(30));
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_next_daemon_takes_the_place_of_one_that_is_gone() {
    let place = Place::new();
    let mut client = place.client();
    client.ask::<Status>(&Request::Status).unwrap();
    drop(place.server);
    let stop = client.ask::<Status>(&Request::Status).unwrap_err();
    assert_eq!(stop.code(), 4, "{stop}");
    let socket = place.folder.path().join("c.sock");
    let stop = Client::connect(&socket).unwrap_err();
    assert_eq!(stop.code(), 4);
    assert!(stop.to_string().contains(&socket.display().to_string()));
    let manager = Arc::clone(&place.fake) as Arc<dyn Manager>;
    let _server = Server::start(&socket, None, manager, Arc::new(|_| String::new())).unwrap();
    let mut client = Client::connect(&socket).unwrap();
    client.ask::<Status>(&Request::Status).unwrap();
}
