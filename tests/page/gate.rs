//! A gate between the browser and the collector. While it is shut, nothing passes.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// An open gate. It ends when it is dropped.
#[derive(Debug)]
pub struct Gate {
    address: SocketAddr,
    is_open: Arc<watch::Sender<bool>>,
    serving: tokio::task::JoinHandle<()>,
}

impl Gate {
    /// A gate to this address.
    pub async fn open(to: &str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let is_open = Arc::new(watch::Sender::new(true));
        let (to, state) = (to.to_owned(), Arc::clone(&is_open));
        let serving = tokio::spawn(async move {
            while let Ok((mut ours, _)) = listener.accept().await {
                let (to, mut state) = (to.clone(), state.subscribe());
                tokio::spawn(async move {
                    if !*state.borrow() {
                        return;
                    }
                    let Ok(mut theirs) = TcpStream::connect(to).await else { return };
                    tokio::select! {
                        _ = copy_bidirectional(&mut ours, &mut theirs) => {}
                        _ = state.wait_for(|is_open| !is_open) => {}
                    }
                });
            }
        });
        Ok(Self { address, is_open, serving })
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ends all connections, and accepts no other.
    pub fn shut(&self) {
        self.is_open.send_replace(false);
    }

    /// Lets connections pass again.
    pub fn reopen(&self) {
        self.is_open.send_replace(true);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
