// The server: a thread that accepts connections, looks at their deadlines, and obeys signals.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "classifier.h"

struct http_options {
  std::string host = "127.0.0.1";
  int port = 8080;                                // 0: any that is free
  int connections = 1024;                         // at once; the one that has waited longest for its client gives way
  std::size_t max_bytes = 65536;                  // of a body
  std::chrono::milliseconds receive{5000};        // for a request to arrive, from its first byte on
  std::chrono::milliseconds idle{30000};          // without a request
  std::chrono::milliseconds compute{1000};        // for the net
  std::chrono::milliseconds last_requests{2000};  // in which a connection without a request may make its last one
  std::chrono::milliseconds drain{6000};          // from SIGTERM to the end, whatever clients do
};

class http_server {
 public:
  /// `on_hangup` is called in the thread of the server when SIGHUP comes; it throws nothing and returns soon.
  http_server(classifier& net, const http_options& o, std::function<void()> on_hangup);
  ~http_server();
  /// Takes the port; gives its number, or 0 where that is not possible.
  int bind();
  /// Serves until SIGTERM or SIGINT. Who has connected by then is answered, and each answer says that it is the last
  /// one of its connection; a client that takes longer than `drain`, or a second signal, is not waited for.
  void serve();
  /// Requests that were answered, whatever the answer was.
  long answered() const;

 private:
  struct implementation;
  std::unique_ptr<implementation> impl_;
};
