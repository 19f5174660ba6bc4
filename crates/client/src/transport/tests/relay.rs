//! Something between client and server that may swallow what goes through it.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

pub struct Relay {
    port: u16,
    config: kube::Config,
    /// How many times everything open was swallowed.
    swallowed: watch::Sender<u32>,
    _task: AbortOnDropHandle<()>,
}

impl Relay {
    /// One before the server of this configuration.
    pub async fn start(config: kube::Config) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = config.cluster_url.authority().unwrap().to_string();
        let swallowed = watch::Sender::new(0);
        let orders = swallowed.clone();
        let task = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let server = TcpStream::connect(&server).await.unwrap();
                let ((from, to), (back, forth)) = (split(client), split(server));
                tokio::spawn(copy(from, forth, orders.subscribe()));
                tokio::spawn(copy(back, to, orders.subscribe()));
            }
        });
        Self { port, config, swallowed, _task: AbortOnDropHandle::new(task) }
    }

    pub fn config(&self) -> kube::Config {
        let mut config = self.config.clone();
        config.cluster_url = format!("https://127.0.0.1:{}", self.port).parse().unwrap();
        config
    }

    /// From now on nothing comes through what is open, and nothing closes it.
    pub fn swallow(&self) {
        self.swallowed.send_modify(|times| *times += 1);
    }
}

async fn copy(mut from: ReadHalf<TcpStream>, mut to: WriteHalf<TcpStream>, mut orders: watch::Receiver<u32>) {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let length = tokio::select! {
            biased;
            _ = orders.changed() => break,
            read = from.read(&mut buffer) => read.unwrap_or(0),
        };
        if length == 0 || to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
    // Reads from the kernel, which acknowledges the data, and forwards nothing.
    while from.read(&mut buffer).await.is_ok_and(|length| length > 0) {}
    std::future::pending::<()>().await;
}
