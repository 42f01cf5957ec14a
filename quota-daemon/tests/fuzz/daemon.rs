//! A whole daemon, in this process, whose tenant is this process too: it spoils its usage region while the daemon reads it, asks
//! nonsense at its socket, and a new daemon finds the files of the old one spoilt.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use quota_abi::layout;
use quota_abi::life::Identity;
use quota_abi::wire::{self, Answer, Purpose, Question};
use quota_daemon::api::{Change, Manager};
use quota_daemon::config::{self, Config};
use quota_daemon::model::{Device, Uuid};
use quota_daemon::serve::{Error, Fixed, Parts, Running, Settings, start};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with, sockopt,
};

use crate::recipe::{Change as Spoil, Recipe};
use crate::region;

const CONFIG: &str = r#"
    [[container]]
    name = "a"
    memory = "4GiB"
    weight = 5
    [[container]]
    name = "b"
    memory = "4GiB"
    compute = "30%"
"#;

/// A daemon in a directory of its own.
pub(crate) struct Daemon {
    directory: tempfile::TempDir,
    running: Option<Running>,
    sound: Vec<u8>,
}

impl Daemon {
    pub(crate) fn start() -> Self {
        let mut daemon = Self {
            directory: tempfile::tempdir().unwrap(),
            running: None,
            sound: region::sound(),
        };
        daemon.again().unwrap();
        daemon
    }

    /// A new one in the place of the old one.
    fn again(&mut self) -> Result<(), Error> {
        self.running = None;
        let state = self.directory.path().join("state");
        let read = move || {
            let file = config::File {
                path: "config.toml".into(),
                text: CONFIG.into(),
            };
            let mut config = Config::read(&[file]).map_err(|problems| problems.to_string())?;
            config.daemon.state.clone_from(&state);
            Ok(config)
        };
        let settings = Settings {
            config: read().unwrap(),
            mount: false,
        };
        let device = Device {
            uuid: Uuid(region::UUIDS[0]),
            index: 0,
            name: "GPU".into(),
            memory_bytes: 16 << 30,
            mig: false,
        };
        let parts = Parts {
            gpus: Arc::new(Fixed(vec![device])),
            reread: Box::new(read),
            counters: Arc::default(),
            warnings: Vec::new(),
        };
        self.running = Some(start(settings, parts)?);
        Ok(())
    }

    fn state(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    fn manager(&self) -> Arc<dyn Manager> {
        self.running.as_ref().unwrap().manager()
    }

    fn usage(&self) -> File {
        let name = format!("regions/a.usage.{}", layout::VERSION);
        let path = self.state().join(name);
        let file = File::options().read(true).write(true).open(&path);
        file.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Asks what `bytes` say at the socket of container `a`; what comes back, or nothing.
    pub(crate) fn ask(&self, bytes: &[u8]) -> Vec<u8> {
        let socket = socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        let wait = std::time::Duration::from_secs(9);
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(wait)).unwrap();
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(wait)).unwrap();
        let path = self.state().join("containers/a").join(wire::SOCKET_NAME);
        connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
        // Longer than a message may be, the kernel says so to one side or the other.
        let _ = send(&socket, bytes, SendFlags::NOSIGNAL);
        let mut answer = vec![0; wire::MOST];
        let (got, _) = recv(&socket, &mut answer[..], RecvFlags::empty()).unwrap_or_default();
        answer.truncate(got);
        answer
    }

    /// Registers this process.
    pub(crate) fn attach(&self) {
        let question = Question::of(&Identity::own(), Purpose::Attach);
        let answer = Answer::decode(&self.ask(&question.encode())).unwrap();
        assert_eq!(answer.status, wire::Status::Granted, "{answer:?}");
        self.mend(&self.usage());
    }

    fn mend(&self, file: &File) {
        let size = self.sound.len() as u64;
        if file.metadata().unwrap().len() != size {
            file.set_len(size).unwrap();
        }
        file.write_all_at(&self.sound, 0).unwrap();
    }

    /// Spoils the region, asks the daemon everything that it makes of it, mends it.
    pub(crate) fn spoil(&self, recipe: &Recipe, everything: bool) {
        let file = self.usage();
        for change in &recipe.0 {
            match *change {
                Spoil::Poke(offset, value) => {
                    file.write_all_at(&value.to_le_bytes(), offset).unwrap();
                }
                Spoil::Size(bytes) => file.set_len(bytes).unwrap(),
            }
        }
        let manager = self.manager();
        let why = manager.why("a").unwrap();
        assert!(why.waits.len() <= layout::EVENTS && why.refusals.len() <= layout::EVENTS);
        let processes = manager.processes(None).unwrap();
        assert_eq!(processes.len(), 1, "this process and nobody else");
        if everything {
            let status = manager.status();
            serde_json::to_string(&status).unwrap();
            assert_eq!(status.containers.len(), 2);
            let shares = status
                .containers
                .iter()
                .flat_map(|container| &container.devices);
            for share in shares {
                // What was promised stays promised.
                assert!(
                    share.own_percent.is_some_and(|own| own >= 29.9),
                    "{share:?}"
                );
            }
        }
        self.mend(&file);
        assert!(
            self.running.as_ref().unwrap().is_sound(),
            "a thread has ended"
        );
    }

    /// The file of a registered process, and the one of what is kept.
    pub(crate) fn kept(&self) -> [Vec<u8>; 2] {
        let change = Change {
            container: "c".into(),
            create: true,
            memory: Some("1GiB".into()),
            weight: Some(3),
            ..Change::default()
        };
        self.manager().set(&change).unwrap();
        let clients = self.state().join("clients/a");
        let client = fs::read_dir(clients)
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
        let kept = self.state().join("containers.json");
        [client, kept].map(|path| fs::read(path).unwrap())
    }

    /// A new daemon that finds these in their place; whether it starts. One that does not says why.
    pub(crate) fn reborn(&mut self, client: &[u8], kept: &[u8]) -> String {
        self.running = None;
        let clients = self.state().join("clients/a");
        for entry in fs::read_dir(&clients).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        fs::write(clients.join("1.1"), client).unwrap();
        fs::write(self.state().join("containers.json"), kept).unwrap();
        if let Err(error) = self.again() {
            // Told what to do, it comes up: nothing that it has kept may keep it down for good.
            fs::remove_file(self.state().join("containers.json")).unwrap();
            self.again().unwrap();
            return error.to_string();
        }
        let names = self.manager().status().containers.len();
        assert!(names >= 2, "a declared container is gone");
        assert!(self.running.as_ref().unwrap().is_sound());
        format!(
            "{} containers, {} processes",
            names.min(4),
            self.manager().processes(None).unwrap().len()
        )
    }
}
