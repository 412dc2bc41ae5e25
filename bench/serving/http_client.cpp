// Load generator for the sample `serve`: http_client PORT CONNECTIONS SECONDS FILE sends images over persistent
// connections, one request at a time on each, and writes rate and latency percentiles as JSON.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "json.h"

namespace {

using clock_type = std::chrono::steady_clock;

class connection {
 public:
  explicit connection(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int on = 1;
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    good_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  }
  ~connection() { ::close(socket_); }
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;

  /// Sends a request and reads its response; whether its status is 200.
  bool ask(const std::string& request) {
    for (std::size_t sent = 0; good_ && sent < request.size();) {
      const auto n = ::send(socket_, request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
      good_ = n > 0;
      if (good_) sent += static_cast<std::size_t>(n);
    }
    const std::size_t head = reach("\r\n\r\n");
    if (!good_) return false;
    const bool yes = in_.starts_with("HTTP/1.1 200");
    const auto field = in_.find("Content-Length: ");
    const std::size_t length = field < head ? std::strtoul(in_.c_str() + field + 16, nullptr, 10) : 0;
    while (good_ && in_.size() < head + length) read();
    if (good_) in_.erase(0, head + length);
    return yes && good_;
  }
  bool good() const { return good_; }

 private:
  std::size_t reach(const char* mark) {
    for (;;) {
      const auto at = in_.find(mark);
      if (at != std::string::npos) return at + 4;
      if (!good_) return 0;
      read();
    }
  }
  void read() {
    char bytes[4096];
    const auto n = ::recv(socket_, bytes, sizeof bytes, 0);
    good_ = n > 0;
    if (good_) in_.append(bytes, static_cast<std::size_t>(n));
  }
  int socket_;
  bool good_ = false;
  std::string in_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: http_client PORT CONNECTIONS SECONDS FILE\n");
    return 2;
  }
  const int port = std::atoi(argv[1]), connections = std::atoi(argv[2]);
  const double seconds = std::atof(argv[3]);
  const std::string request =
      "POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\nContent-Length: "
      "784\r\n\r\n" +
      std::string(784, '\x40');
  std::atomic<bool> measuring{false}, over{false};
  std::atomic<long> failed{0};
  std::vector<std::vector<double>> times(static_cast<std::size_t>(connections));
  std::vector<std::thread> threads;
  for (auto& mine : times)
    threads.emplace_back([&] {
      connection c(port);
      while (!over) {
        const auto begin = clock_type::now();
        if (!c.ask(request)) {
          ++failed;
          if (!c.good()) return;
        } else if (measuring) {
          mine.push_back(std::chrono::duration<double, std::micro>(clock_type::now() - begin).count());
        }
      }
    });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  measuring = true;
  const auto begin = clock_type::now();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  measuring = false;
  const double passed = std::chrono::duration<double>(clock_type::now() - begin).count();
  over = true;
  for (auto& t : threads) t.join();
  std::vector<double> all;
  for (const auto& mine : times) all.insert(all.end(), mine.begin(), mine.end());
  std::sort(all.begin(), all.end());
  if (all.empty() || failed != 0) {
    std::fprintf(stderr, "%ld requests failed, %zu were answered\n", failed.load(), all.size());
    return 1;
  }
  bench::write_json(argv[4], {{"images_per_second", static_cast<double>(all.size()) / passed},
                              {"p50_us", all[all.size() / 2]},
                              {"p99_us", all[all.size() - all.size() / 100 - 1]}});
  return 0;
}
