// The routes of the server.
#pragma once
#include <memory>
#include <string>

#include "classifier.h"

struct http_options {
  std::string host = "127.0.0.1";
  int port = 8080;              // 0: any that is free
  int connections = 64;         // served at once
  std::size_t most_bytes = 65536;    // of a body
};

class http_server {
 public:
  http_server(classifier& net, const http_options& o);
  ~http_server();
  /// Takes the port; gives its number, or 0 where that is not possible.
  int bind();
  /// Serves until somebody calls `stop`, and answers what was accepted by then.
  void serve();
  /// From any thread: no new connections; requests of those that were made are answered, and each answer says that it is
  /// the last one of its connection. Returns when `serve` has: a client that goes on for 6 seconds is cut off.
  void stop();
  /// Requests that were answered, whatever the answer was.
  long answered() const;

 private:
  struct implementation;
  std::unique_ptr<implementation> impl_;
};
