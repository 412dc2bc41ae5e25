#include "http.h"

#include <boost/asio/basic_signal_set.hpp>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/posix/basic_stream_descriptor.hpp>

#include <sys/resource.h>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "connection.h"
#include "metrics.h"

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using namespace std::chrono_literals;

namespace {

using clock_type = connection::clock;
using executor = asio::io_context::executor_type;

// Connections beyond those that may wait for the net, so that one can always be evicted; and descriptors for other
// files.
constexpr int spare_connections = 16, other_descriptors = 64;
constexpr auto between_looks = 100ms, after_a_failure = 10ms;

// Sets a flag during the lifetime of the handler that owns it. If memory for a handler runs out, it is destroyed
// without being called; the flag then becomes false.
class standing {
 public:
  explicit standing(bool& flag) : flag_(&flag) { flag = true; }
  standing(standing&& other) noexcept : flag_(std::exchange(other.flag_, nullptr)) {}
  ~standing() {
    if (flag_) *flag_ = false;
  }

 private:
  bool* flag_;
};

// Limits the connections to the available file descriptors.
http_options limited(http_options o) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return o;
  const rlim_t wanted = static_cast<rlim_t>(o.connections) + spare_connections + other_descriptors;
  if (files.rlim_cur < wanted) {
    rlimit more{std::min(wanted, files.rlim_max), files.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &more) == 0) files = more;
  }
  if (files.rlim_cur >= wanted) return o;
  o.connections = std::max(1, static_cast<int>(files.rlim_cur) - spare_connections - other_descriptors);
  std::fprintf(stderr, "serve: at most %d connections: limited by file descriptors\n", o.connections);
  return o;
}

}  // namespace

struct http_server::implementation {
  connections_state state;
  std::function<void()> on_hangup;
  bool accepting = false, looking = false, listening = false, waking = false;
  clock_type::time_point accept_after{}, ends{};
  asio::io_context io{1};
  asio::basic_socket_acceptor<tcp, executor> acceptor{io};
  socket_type next{io};
  asio::basic_waitable_timer<clock_type, asio::wait_traits<clock_type>, executor> timer{io};
  asio::basic_signal_set<executor> signals{io, SIGTERM, SIGINT, SIGHUP};
  asio::posix::basic_stream_descriptor<executor> wake{io, state.wake.descriptor()};

  implementation(classifier& net, const http_options& o, std::function<void()> hangup)
      : state{.net = net, .options = limited(o)}, on_hangup(std::move(hangup)) {
    state.pages.metrics = [this] { return metrics(); };
  }
  ~implementation() { wake.release(); }

  std::string metrics() const {
    metrics_text m;
    std::vector<std::pair<std::string, std::int64_t>> lines;
    for (std::size_t status = 0; status < state.by_status.size(); ++status)
      if (state.by_status[status])
        lines.emplace_back("code=\"" + std::to_string(status) + '"', state.by_status[status]);
    m.counter("lamina_http_responses_total", "Responses by status.", lines);
    m.gauge("lamina_http_connections", "Open connections.", state.open);
    m.counter("lamina_http_connections_total", "Connections by event.",
              {{"event=\"accepted\"", state.accepted},
               {"event=\"gave_way\"", state.given_way},
               {"event=\"timed_out\"", state.timed_out}});
    return m.text() + state.net.metrics();
  }

  // Starts each wait (signals, wake-ups, timer, accept) that is not pending, also after a failed allocation.
  void wait_for_all() {
    if (!listening)
      signals.async_wait([this, stands = standing(listening)](const error_code& e, int signal) {
        if (!e) obey(signal);
      });
    if (!waking)
      wake.async_wait(asio::posix::descriptor_base::wait_read,
                      [this, stands = standing(waking)](const error_code&) { hand_out(); });
    if (!looking) {
      timer.expires_after(between_looks);
      timer.async_wait([this, stands = standing(looking)](const error_code&) { look(); });
    }
    if (!accepting && acceptor.is_open() && clock_type::now() >= accept_after)
      acceptor.async_accept(next, [this, stands = standing(accepting)](const error_code& e) { on_accepted(e); });
  }

  void on_accepted(const error_code& e) {
    if (e == asio::error::operation_aborted) return;
    if (!e) return begin(std::move(next));
    give_way();  // out of descriptors or memory: retry after a pause
    accept_after = clock_type::now() + between_looks;
  }

  void begin(socket_type socket) {
    ++state.accepted;
    if (state.open >= state.options.connections + spare_connections) give_way();
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    std::make_shared<connection>(state, std::move(socket))->await_request();
  }

  // Evicts the connection that has waited longest for its client.
  void give_way() {
    connection* oldest = nullptr;
    for (auto* c : state.all)
      if (c->waits_for_client() && (!oldest || c->since() < oldest->since())) oldest = c;
    if (!oldest) return;
    ++state.given_way;
    oldest->close();
  }

  void hand_out() {
    for (auto t = state.wake.take(); t; t = std::exchange(t->next, nullptr)) {
      connection* const c = t->of;
      if (!c) continue;
      try {
        c->answer_is_ready();
      } catch (const std::exception&) {  // closes only this connection; the others still get responses
      }
    }
  }

  void look() {
    const auto now = clock_type::now();
    for (auto i = state.all.begin(); i != state.all.end();) (*i++)->look(now);  // may close and erase the connection
    if (state.pages.stopping && (state.all.empty() || now >= ends)) io.stop();
  }

  void obey(int signal) {
    if (signal == SIGHUP) return on_hangup();
    if (state.pages.stopping) return io.stop();
    std::fputs("serve: stopping\n", stderr);
    state.pages.stopping = true;  // from now on each response has `Connection: close`
    ends = clock_type::now() + state.options.drain;
    for (auto* c : state.all) c->hurry(clock_type::now() + state.options.last_requests);
    try {
      accept_all();
    } catch (const std::bad_alloc&) {}
    error_code ignored;
    acceptor.close(ignored);
  }

  // Accepts the connections that are already in the backlog.
  void accept_all() {
    error_code e;
    acceptor.non_blocking(true, e);
    for (int i = 0; !e && i < 4 * state.options.connections; ++i) {
      socket_type socket(io);
      acceptor.accept(socket, e);
      if (!e) begin(std::move(socket));
    }
  }
};

http_server::http_server(classifier& net, const http_options& o, std::function<void()> on_hangup)
    : impl_(std::make_unique<implementation>(net, o, std::move(on_hangup))) {}
http_server::~http_server() = default;

int http_server::bind() {
  auto& all = *impl_;
  const auto& o = all.state.options;
  error_code e;
  tcp::resolver resolver(all.io);
  const auto found =
      resolver.resolve(o.host, std::to_string(o.port), tcp::resolver::passive | tcp::resolver::numeric_service, e);
  if (e || found.empty()) return 0;
  const tcp::endpoint at = found.begin()->endpoint();
  all.acceptor.open(at.protocol(), e);
  // Old connections of an earlier server do not block the port; a second running server is still an error.
  if (!e) all.acceptor.set_option(tcp::acceptor::reuse_address(true), e);
  if (!e) all.acceptor.bind(at, e);
  if (!e) all.acceptor.listen(asio::socket_base::max_listen_connections, e);
  if (e) return 0;
  const tcp::endpoint taken = all.acceptor.local_endpoint(e);
  return e ? 0 : taken.port();
}

void http_server::serve() {
  auto& all = *impl_;
  while (!all.io.stopped()) {
    try {
      all.wait_for_all();
      all.io.run_one();
    } catch (const std::exception& e) {  // closes the connection that failed
      std::fprintf(stderr, "serve: a connection was closed: %s\n", e.what());
      std::this_thread::sleep_for(after_a_failure);
    }
  }
}
long http_server::answered() const { return static_cast<long>(impl_->state.answered); }
