// One connection: it reads a request, has it answered, writes the answer, and begins again. It costs a socket and what
// it has read, and no thread; all of it runs in the thread of the server.
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

/// What the connections of a server share.
struct connections_state {
  classifier& net;
  const http_options options;
  server_state pages{};
  wake_list wake{};
  std::list<connection*> all{};
  int open = 0, computing = 0;  // connections that are not closed; that wait for the net
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
  /// Acts where the time for what it does is over.
  void look(clock::time_point now);
  /// Takes the answer that it waits for.
  void answer_is_ready();
  /// Shortens the time that it may stay without a request.
  void hurry(clock::time_point until);
  void close();
  /// Whether it may be closed for a new one, and since when it waits for its client.
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
  std::shared_ptr<connection> held_;  // itself, while only the net knows of it
};
