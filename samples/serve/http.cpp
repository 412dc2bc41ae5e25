#include "http.h"

#include <httplib.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <netdb.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <utility>

#include "metrics.h"
#include "page.h"
#include "picture.h"

namespace {

using json = nlohmann::json;
using namespace std::chrono_literals;

// Threads for connections, which knows how many of them wait for a thread.
class connection_pool final : public httplib::TaskQueue {
 public:
  connection_pool(std::size_t threads, std::atomic<int>& waiting) : pool_(threads), waiting_(waiting) {}
  // Gives what the pool gives: some versions of the library say whether there was room.
  auto enqueue(std::function<void()> connection) -> decltype(std::declval<httplib::TaskQueue&>().enqueue({})) override {
    ++waiting_;
    return pool_.enqueue([this, connection = std::move(connection)] {
      --waiting_;
      connection();
    });
  }
  void shutdown() override { pool_.shutdown(); }

 private:
  httplib::ThreadPool pool_;
  std::atomic<int>& waiting_;
};

// The port of one end of a socket, or -1.
int port_of(int (*name)(int, sockaddr*, socklen_t*), int socket) {
  sockaddr_storage at{};
  socklen_t size = sizeof at;
  char port[NI_MAXSERV];
  auto* const address = reinterpret_cast<sockaddr*>(&at);
  if (name(socket, address, &size) != 0 || ::getnameinfo(address, size, nullptr, 0, port, sizeof port, NI_NUMERICSERV) != 0) return -1;
  return std::atoi(port);
}

// Shuts connections to a port of this program down, all of them or those from one port: the library hands none out.
void shut_connections(int local, int remote, int how) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const int file = std::atoi(entry.path().filename().c_str());
    if (port_of(&::getsockname, file) != local) continue;
    const int peer = port_of(&::getpeername, file);
    if (peer > 0 && (remote == 0 || peer == remote)) ::shutdown(file, how);
  }
}

// Ends in steps: who has connected is served, then nobody connects any more, then connections end with their answer.
class stoppable_server : public httplib::Server {
 public:
  bool has_callers() const {
    pollfd waits{svr_sock_, POLLIN, 0};
    return svr_sock_ != INVALID_SOCKET && ::poll(&waits, 1, 0) == 1 && waits.revents == POLLIN;
  }
  void refuse_connections() { ::shutdown(svr_sock_, SHUT_RDWR); }
  void end_connections() { svr_sock_ = INVALID_SOCKET; }
};

void reply(httplib::Response& response, int status, const json& content) {
  response.status = status;
  response.set_content(content.dump() + '\n', "application/json");
}
void refuse(httplib::Response& response, int status, const std::string& why) { reply(response, status, {{"error", why}}); }

// The kind of content, without parameters, in small letters.
std::string kind_of(const httplib::Request& request) {
  std::string kind = request.get_header_value("Content-Type");
  kind.resize(std::min(kind.find_first_of("; \t"), kind.size()));
  for (char& c : kind) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return kind;
}

constexpr const char* kinds = "the content type is to be image/png or application/octet-stream";

// The library holds a body against the limit by the length that is said beforehand, and unpacks what is packed without any:
// what says no length, is packed or has parts is refused before a byte of it is read. The connection ends with that.
bool refuse_unread(const httplib::Request& request, httplib::Response& response) {
  const std::string length = request.get_header_value("Content-Length");
  const bool has_body = request.method != "GET" && request.method != "HEAD" && request.method != "OPTIONS";
  int status = 0;
  std::string why;
  if (request.has_header("Transfer-Encoding") || (has_body && !request.has_header("Content-Length"))) status = 411, why = "the length of the body is to be said beforehand, in Content-Length";
  else if (request.has_header("Content-Encoding")) status = 415, why = "the body is to be sent as it is, not packed";
  else if (request.get_header_value_count("Content-Length") > 1 || length.find_first_not_of("0123456789") != length.npos)
    status = 400, why = "the Content-Length is no length";
  else if (kind_of(request).starts_with("multipart/")) status = 415, why = kinds;
  if (status == 0) return false;
  response.set_header("Connection", "close");
  refuse(response, status, why);
  return true;
}

bool closes(const auto& message) { return message.get_header_value("Connection") == "close"; }

const char* words_for(int status) {
  switch (status) {
    case 400: return "the request is no HTTP that this server reads";
    case 404: return "no such page; there are POST /predict, GET /healthz, GET /metrics and GET /";
    case 413: return "the body is too long";
    case 414: return "the address is too long";
    default: return "the request cannot be answered";
  }
}

}  // namespace

struct http_server::implementation {
  classifier& net;
  const http_options options;
  stoppable_server server;
  std::atomic<int> waiting{0};
  std::atomic<long> answered{0};
  std::atomic<bool> stopping{false};
  int port = 0;
  bool ended = false;
  std::condition_variable ends;
  mutable std::mutex mutex;
  std::map<int, std::int64_t> by_status;

  implementation(classifier& c, const http_options& o) : net(c), options(o) {}

  void predict(const httplib::Request& request, httplib::Response& response) {
    const std::string type = kind_of(request);
    image_bytes image;
    std::string why;
    if (type == "image/png") {
      if (!read_png(request.body, image, why)) return refuse(response, 400, why);
    } else if (type == "application/octet-stream") {
      if (request.body.size() != image_pixels)
        return refuse(response, 400, "the body has " + std::to_string(request.body.size()) + " bytes, and 784 are expected, one a pixel");
      std::copy(request.body.begin(), request.body.end(), image.begin());
    } else {
      return refuse(response, 415, kinds + std::string(type.empty() ? ", and there is none" : ""));
    }
    const auto p = net.classify(image);
    switch (p.what) {
      case verdict::classified: return reply(response, 200, {{"class", class_names[p.label]}, {"label", p.label}, {"probabilities", p.probabilities}});
      case verdict::full: response.set_header("Retry-After", "1"); return refuse(response, 503, "too many requests wait already");
      case verdict::late: return refuse(response, 504, "the answer took too long");
      case verdict::stopping: return refuse(response, 503, "the server is being stopped");
      case verdict::failed: return refuse(response, 500, p.reason);
    }
  }

  std::string metrics() const {
    metrics_text m;
    std::vector<std::pair<std::string, std::int64_t>> lines;
    {
      std::lock_guard lock(mutex);
      for (auto [status, count] : by_status) lines.emplace_back("code=\"" + std::to_string(status) + '"', count);
    }
    m.counter("lamina_http_responses_total", "Responses by status.", lines);
    return m.text() + net.metrics();
  }

  void set_up() {
    server.new_task_queue = [this] { return new connection_pool(static_cast<std::size_t>(options.connections), waiting); };
    server.set_payload_max_length(options.most_bytes);
    server.set_keep_alive_max_count(1000000);
    server.set_keep_alive_timeout(2);
    server.set_read_timeout(5s);
    server.set_write_timeout(5s);
    server.set_tcp_nodelay(true);
    // Connections that an earlier server has left do not keep the port; a second server on it is an error.
    server.set_socket_options([](auto socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    server.set_pre_routing_handler([](const httplib::Request& q, httplib::Response& r) {
      const_cast<httplib::Request&>(q).ranges.clear();     // answers are small: whole, whatever part is asked for
      return refuse_unread(q, r) ? httplib::Server::HandlerResponse::Handled : httplib::Server::HandlerResponse::Unhandled;
    });
    server.Post("/predict", [this](const httplib::Request& q, httplib::Response& r) { predict(q, r); });
    server.Get("/predict", [](const httplib::Request&, httplib::Response& r) {
      r.set_header("Allow", "POST");
      refuse(r, 405, "an image is sent with POST");
    });
    server.Get("/healthz", [this](const httplib::Request&, httplib::Response& r) {
      stopping ? refuse(r, 503, "the server is being stopped") : reply(r, 200, {{"status", "ok"}});
    });
    server.Get("/metrics", [this](const httplib::Request&, httplib::Response& r) { r.set_content(metrics(), "text/plain; version=0.0.4"); });
    server.Get("/", [](const httplib::Request&, httplib::Response& r) { r.set_content(page, "text/html; charset=utf-8"); });
    server.set_error_handler(httplib::Server::Handler([](const httplib::Request&, httplib::Response& r) {
      if (r.body.empty()) refuse(r, r.status, words_for(r.status));
    }));
    server.set_post_routing_handler([this](const httplib::Request&, httplib::Response& r) {
      if (!stopping || closes(r)) return;
      r.headers.erase("Keep-Alive");
      r.set_header("Connection", "close");
    });
    server.set_logger([this](const httplib::Request& q, const httplib::Response& r) {
      if (closes(r) && !closes(q)) shut_connections(port, q.remote_port, SHUT_RD);   // what follows is not read
      ++answered;
      std::lock_guard lock(mutex);
      ++by_status[r.status];
    });
  }
};

http_server::http_server(classifier& net, const http_options& o) : impl_(std::make_unique<implementation>(net, o)) { impl_->set_up(); }
http_server::~http_server() = default;
int http_server::bind() {
  auto& s = impl_->server;
  const auto& o = impl_->options;
  return impl_->port = o.port == 0 ? std::max(s.bind_to_any_port(o.host), 0) : s.bind_to_port(o.host, o.port) ? o.port : 0;
}
void http_server::serve() {
  impl_->server.listen_after_bind();
  std::lock_guard lock(impl_->mutex);
  impl_->ended = true;
  impl_->ends.notify_all();
}
void http_server::stop() {
  using clock = std::chrono::steady_clock;
  auto& all = *impl_;
  const auto begin = clock::now();
  const auto ended_by = [&](clock::time_point t) {
    std::unique_lock lock(all.mutex);
    return all.ends.wait_until(lock, t, [&] { return all.ended; });
  };
  all.stopping = true;         // each answer says from now on that it is the last one
  while (all.server.has_callers() && clock::now() < begin + 1s) std::this_thread::sleep_for(1ms);
  all.server.refuse_connections();
  // Who keeps a connection may ask once more while it is kept; who waits for a thread gets one.
  if (ended_by(begin + 3s)) return;
  while (all.waiting > 0 && clock::now() < begin + 5s)
    if (ended_by(clock::now() + 10ms)) return;
  all.server.end_connections();
  // Then nothing is read any more, and at last nothing is written.
  for (auto next = begin + 6s; !ended_by(next); next += 100ms) shut_connections(all.port, 0, next < begin + 9s ? SHUT_RD : SHUT_RDWR);
}
long http_server::answered() const { return impl_->answered; }
