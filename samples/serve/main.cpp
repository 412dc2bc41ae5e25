// Serves a net for Fashion-MNIST over HTTP: SIGHUP reads its weights again, SIGTERM and Ctrl-C end it.
#include <CLI/CLI.hpp>

#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <pthread.h>
#include <string>
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
  int delay = static_cast<int>(a.net.delay.count());
  CLI::App app("Serves the net that samples/fashion_mnist has trained over HTTP.", "serve");
  app.add_option("weights", a.net.weights, "The file lenet.safetensors")->required();
  app.add_option("--host", a.http.host, "Address to listen on");
  app.add_option("--port", a.http.port, "Port to listen on; 0 takes one that is free")->check(CLI::Range(0, 65535));
  app.add_option("--workers", a.net.workers, "Threads that compute")->check(CLI::Range(1, 1024));
  app.add_option("--batch", a.net.batch, "Most images of one batch")->check(CLI::Range(1, 4096));
  app.add_option("--delay", delay, "Microseconds that an image waits for others")->check(CLI::Range(0, 1000000));
  app.add_option("--capacity", a.net.capacity, "Images that wait at most; others are refused")->check(CLI::Range(1, 1000000));
  app.add_option("--connections", a.http.connections, "Connections served at once")->check(CLI::Range(1, 1024));
  app.add_flag("--untrained", a.untrained, "Write an untrained net to the file and end");
  app.add_option("--seed", a.seed, "Of the untrained net");
  for (auto* option : app.get_options([](CLI::Option* x) { return x->get_items_expected_max() > 0 && !x->get_required(); }))
    option->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) std::exit(app.exit(e));
    std::cerr << "error: " << e.what() << " (--help lists the options)\n";
    std::exit(2);
  }
  a.net.delay = std::chrono::microseconds(delay);
  return a;
}

// Signals are taken by one thread that waits for them; every other one, made later, has them blocked.
sigset_t blocked_signals() {
  sigset_t all;
  sigemptyset(&all);
  for (int s : {SIGHUP, SIGTERM, SIGINT}) sigaddset(&all, s);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return all;
}

void log(const std::string& line) { std::cerr << ("serve: " + line + '\n') << std::flush; }

void obey(const sigset_t& signals, classifier& net, http_server& http) {
  for (;;) {
    int signal = 0;
    if (sigwait(&signals, &signal) != 0) continue;
    if (signal != SIGHUP) break;
    std::string said;
    if (net.reload(said)) log("the weights are those of " + said + " from now on");
    else log("the weights stay as they are: " + said);
  }
  log("stopping");
  http.stop();
}

int run(const arguments& a) {
  if (a.untrained) {
    write_untrained(a.net.weights, a.seed);
    return 0;
  }
  const sigset_t signals = blocked_signals();
  classifier net(a.net);
  http_server http(net, a.http);
  const int port = http.bind();
  if (port == 0) {
    log("error: " + a.http.host + ":" + std::to_string(a.http.port) + " cannot be listened on");
    return 2;
  }
  std::cout << "listening on http://" << a.http.host << ':' << port << std::endl;
  std::thread listener([&] { obey(signals, net, http); });
  http.serve();
  pthread_kill(listener.native_handle(), SIGTERM);    // where it is not that which ended the server
  listener.join();
  net.stop();
  log("stopped after " + std::to_string(http.answered()) + " answers");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const arguments a = parse(argc, argv);
  try {
    return run(a);
  } catch (const std::exception& e) {
    std::cerr << "error: " << e.what() << '\n';
    return 2;
  }
}
