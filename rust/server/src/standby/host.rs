//! How a standby serves what its listeners accept.

use std::net::IpAddr;
use std::rc::Rc;

use delaymq_core::units::Millis;
use delaymq_core::wire::http::HttpRequest;
use tokio::task::spawn_local;

use crate::access::entrance::Entrance;
use crate::connection::host::{Accepted, Host};
use crate::http::cluster::ClusterPages;
use crate::http::page::Page;
use crate::options::ServerOptions;
use crate::standby::state::StandbyState;
use crate::standby::{connection, pages};

impl Host for StandbyState {
    fn options(&self) -> &ServerOptions {
        &self.options
    }

    fn entrance(&self) -> &Entrance {
        &self.entrance
    }

    fn cluster(&self) -> Option<&dyn ClusterPages> {
        Some(&*self.cluster)
    }

    fn now(&self) -> Millis {
        Self::now(self)
    }

    fn is_draining(&self) -> bool {
        self.is_stopping()
    }

    fn begin(self: Rc<Self>, accepted: Accepted) {
        self.open.set(self.open.get().saturating_add(1));
        spawn_local(async move {
            connection::run(&self, accepted).await;
            self.open.set(self.open.get().saturating_sub(1));
            self.left.notify_one();
        });
    }

    async fn page(self: Rc<Self>, request: &HttpRequest<'_>, _: IpAddr) -> Page {
        pages::page(&self, request)
    }
}
