// Serves a Fashion-MNIST net over HTTP. SIGHUP reloads its weights; SIGTERM and Ctrl-C stop it.
#include <CLI/CLI.hpp>

#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

#include "classifier.h"
#include "http.h"

namespace {

struct arguments {
  classifier_options net;
  http_options http;
  bool untrained = false;
  std::int64_t seed = 42;
};

arguments parse(int argc, char** argv) {
  arguments a;
  int delay = static_cast<int>(a.net.delay.count()), receive = static_cast<int>(a.http.receive.count());
  CLI::App app("Serves a net trained by samples/fashion_mnist over HTTP.", "serve");
  app.add_option("weights", a.net.weights, "Weights file (lenet.safetensors)")->required();
  app.add_option("--host", a.http.host, "Address to listen on");
  app.add_option("--port", a.http.port, "Port to listen on; 0 picks a free one")->check(CLI::Range(0, 65535));
  app.add_option("--workers", a.net.workers, "Compute threads")->check(CLI::Range(1, 1024));
  app.add_option("--batch", a.net.batch, "Max images per batch")->check(CLI::Range(1, 4096));
  app.add_option("--delay", delay, "Max microseconds that an image waits for its batch to fill")
      ->check(CLI::Range(0, 1000000));
  app.add_option("--capacity", a.net.capacity, "Max queued images; further images are refused")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--connections", a.http.connections,
                 "Max open connections; beyond it, the connection idle longest is closed")
      ->check(CLI::Range(1, 65536));
  app.add_option("--receive", receive, "Timeout for receiving a request, in milliseconds")
      ->check(CLI::Range(1, 3600000));
  app.add_flag("--untrained", a.untrained, "Write an untrained net to the file and exit");
  app.add_option("--seed", a.seed, "Seed of the untrained net");
  for (auto* option :
       app.get_options([](CLI::Option* x) { return x->get_items_expected_max() > 0 && !x->get_required(); }))
    option->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) std::exit(app.exit(e));
    std::cerr << "error: " << e.what() << " (--help lists the options)\n";
    std::exit(2);
  }
  a.net.delay = std::chrono::microseconds(delay);
  a.http.receive = std::chrono::milliseconds(receive);
  a.http.compute = a.net.patience;
  return a;
}

// Reloads weights in a separate thread, so that a large file does not block the server.
class reloader {
 public:
  explicit reloader(classifier& net) : net_(net) {
    try {
      thread_ = std::thread([this] { work(); });
    } catch (const std::system_error& e) {
      throw std::runtime_error(std::string("the thread that reloads weights cannot be started: ") + e.what());
    }
  }
  ~reloader() {
    tell(over_);
    thread_.join();
  }
  reloader(const reloader&) = delete;
  reloader& operator=(const reloader&) = delete;
  void ask() { tell(asked_); }

 private:
  void tell(bool& what) {
    {
      std::lock_guard lock(mutex_);
      what = true;
    }
    changed_.notify_one();
  }
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return asked_ || over_; });
      if (over_) return;
      asked_ = false;
      lock.unlock();
      reload();
      lock.lock();
    }
  }
  void reload() {
    try {
      std::string message;
      const bool good = net_.reload(message);
      if (good) std::fprintf(stderr, "serve: loaded weights from %s\n", message.c_str());
      else std::fprintf(stderr, "serve: keeping the current weights: %s\n", message.c_str());
    } catch (const std::bad_alloc&) { std::fputs("serve: keeping the current weights: out of memory\n", stderr); }
  }

  classifier& net_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool asked_ = false, over_ = false;
  std::thread thread_;
};

int run(const arguments& a) {
  if (a.untrained) {
    write_untrained(a.net.weights, a.seed);
    return 0;
  }
  std::signal(SIGPIPE, SIG_IGN);
  // Creates all threads and descriptors before a client can connect.
  classifier net(a.net);
  reloader weights(net);
  http_server http(net, a.http, [&] { weights.ask(); });
  const int port = http.bind();
  if (port == 0) {
    std::fprintf(stderr, "serve: error: cannot listen on %s:%d\n", a.http.host.c_str(), a.http.port);
    return 2;
  }
  const bool six = a.http.host.find(':') != a.http.host.npos;
  std::printf(six ? "listening on http://[%s]:%d\n" : "listening on http://%s:%d\n", a.http.host.c_str(), port);
  std::fflush(stdout);
  http.serve();
  net.stop();
  std::fprintf(stderr, "serve: stopped after %ld answers\n", http.answered());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (const std::bad_alloc&) { std::fputs("error: out of memory\n", stderr); } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
  }
  return 2;
}
