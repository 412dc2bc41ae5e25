// One connection: reads a request, gets its response, writes it, and repeats. It takes a socket and a read buffer but
// no thread; all its code runs in the server thread.
#pragma once
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "classifier.h"
#include "http.h"
#include "routes.h"
#include "wake.h"

using socket_type = boost::asio::basic_stream_socket<boost::asio::ip::tcp, boost::asio::io_context::executor_type>;

/// State shared by all connections of a server.
struct connections_state {
  classifier& net;
  const http_options options;
  server_state pages{};
  wake_list wake{};
  std::list<connection*> all{};
  int open = 0, computing = 0;  // connections that are not closed; those that wait for the net
  std::int64_t accepted = 0, given_way = 0, timed_out = 0, answered = 0;
  std::array<std::int64_t, 600> by_status{};
  std::array<char, 65536> discarded{};
};

class connection : public std::enable_shared_from_this<connection> {
 public:
  using clock = std::chrono::steady_clock;

  connection(connections_state& state, socket_type socket);
  ~connection();
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;

  /// Waits for the first byte of the next request.
  void await_request();
  /// Handles the timeout of the current stage if it has expired.
  void look(clock::time_point now);
  /// Takes the pending prediction and sends the response.
  void answer_is_ready();
  /// Shortens the idle timeout.
  void hurry(clock::time_point until);
  void close();
  /// Whether it may be closed in favor of a new connection, and the start of its current stage.
  bool waits_for_client() const { return stage_ != stage::computing && stage_ != stage::closed; }
  clock::time_point since() const { return since_; }

 private:
  enum class stage { idle, receiving, computing, writing, draining, closed };
  using error = boost::system::error_code;

  void enter(stage s, std::chrono::milliseconds time);
  void receive();
  void read_body();
  bool unreadable(const error& e);
  void on_head(const error& e);
  void on_request();
  void classify(const image_bytes& image);
  void forget_answer();
  void respond(const reply& r, bool last);
  void shut();
  void drain();

  connections_state& state_;
  std::list<connection*>::iterator place_;
  socket_type socket_;
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser_;
  stage stage_ = stage::idle;
  clock::time_point since_{}, until_{};
  bool late_ = false, last_ = false, head_only_ = false;
  int status_ = 0;
  std::string out_;
  std::unique_ptr<classification> pending_;
  std::shared_ptr<ticket> ticket_;
  std::shared_ptr<connection> held_;  // keeps this alive while only the net refers to it
};
