// The server: one thread accepts connections, checks their timeouts and handles signals.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "classifier.h"

struct http_options {
  std::string host = "127.0.0.1";
  int port = 8080;                                // 0: any free port
  int connections = 1024;                         // at once; beyond that the longest-waiting one is evicted
  std::size_t max_bytes = 65536;                  // limit of a request body
  std::chrono::milliseconds receive{5000};        // for a whole request, from its first byte
  std::chrono::milliseconds idle{30000};          // between requests
  std::chrono::milliseconds compute{1000};        // for the prediction
  std::chrono::milliseconds last_requests{2000};  // after SIGTERM: for an idle connection's last request
  std::chrono::milliseconds drain{6000};          // from SIGTERM to the exit, whatever clients do
};

class http_server {
 public:
  /// `on_hangup` is called in the server thread upon SIGHUP; it must not throw or block.
  http_server(classifier& net, const http_options& o, std::function<void()> on_hangup);
  ~http_server();
  /// Binds the port; returns its number, or 0 on failure.
  int bind();
  /// Serves until SIGTERM or SIGINT. Then clients that are already connected still get responses, each the last one of
  /// its connection. Returns after `drain` at the latest, or upon a second signal.
  void serve();
  /// Number of requests answered, with any status.
  long answered() const;

 private:
  struct implementation;
  std::unique_ptr<implementation> impl_;
};
