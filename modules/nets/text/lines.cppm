// Text data sets: lines of files, and windows of tokens.
export module lamina:text;
import :core;
import :tensor;
import lamina.std;

namespace lamina {

/// Options for reading a text file.
struct line_options {
  bool skip_empty = false;       ///< skips empty and white-space lines
  bool replace_invalid = false;  ///< replaces invalid UTF-8 by U+FFFD instead of raising an error
};
/// The lines of a UTF-8 file. Copies share the text; safe for concurrent reads.
export class line_dataset {
 public:
  struct contents;
  explicit line_dataset(std::shared_ptr<const contents> c);
  std::int64_t size() const;
  /// The i-th line without its end.   Errors: value_error for an index outside 0..size() - 1.
  std::string operator[](std::int64_t i) const { return std::string(line(i)); }
  /// The same as a view of the text, valid while the data set or a copy of it exists.
  std::string_view line(std::int64_t i) const;
  /// Location of the i-th line for messages: file and line number, "notes.txt:17".
  std::string location(std::int64_t i) const;

 private:
  std::shared_ptr<const contents> contents_;
};

/// Training sample of a language model: tokens, and the next token for each.
struct token_window {
  vector<std::int64_t> inputs, targets;
};
/// Windows of a token stream. Samples share its memory.
export class window_dataset {
 public:
  window_dataset(vector<std::int64_t> ids, std::int64_t length, std::int64_t stride);
  std::int64_t size() const { return size_; }
  /// Tokens i * stride to i * stride + length - 1, and the same shifted by one.   Errors: value_error for an index
  /// outside 0..size() - 1.
  token_window operator[](std::int64_t i) const;

 private:
  vector<std::int64_t> ids_;
  std::int64_t length_ = 0, stride_ = 0, size_ = 0;
};

export namespace datasets {

/// Reads a text file. Lines end with \n or \r\n, which is optional for the last one. Skips a byte order mark.
/// Errors: file_error for an unreadable file, and for invalid UTF-8, naming the line.
line_dataset lines(const std::string& path, const line_options& o = {});
/// The same for text in memory; `name` is the prefix of messages.
line_dataset lines_of(std::string text, const line_options& o = {}, std::string_view name = "text");

/// Windows of `length` tokens, one per `stride` tokens, that are followed by at least one token; a stride of 0 means
/// `length`.   Errors: value_error for a length below 1 or a negative stride.
window_dataset token_windows(const vector<std::int64_t>& ids, std::int64_t length, std::int64_t stride = 0);
window_dataset token_windows(const std::vector<std::int64_t>& ids, std::int64_t length, std::int64_t stride = 0);

}  // namespace datasets

}  // namespace lamina
