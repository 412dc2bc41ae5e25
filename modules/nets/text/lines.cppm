// Text for training: files by lines, and tokens by windows.
export module lamina:text;
import :core;
import :tensor;
import lamina.std;

namespace lamina {

/// How a file of text is read.
struct line_options {
  bool skip_empty = false;       ///< lines of nothing or white space are no samples
  bool replace_invalid = false;  ///< U+FFFD stands for what is no UTF-8, rather than an error
};
/// The lines of a file in UTF-8. Copies share its text; several threads may read.
export class line_dataset {
 public:
  struct contents;
  explicit line_dataset(std::shared_ptr<const contents> c);
  std::int64_t size() const;
  /// The i-th line without its end.   Errors: value_error for an index outside 0..size() - 1.
  std::string operator[](std::int64_t i) const { return std::string(line(i)); }
  /// The same as a part of the text, which lives as long as the data set or a copy of it.
  std::string_view line(std::int64_t i) const;
  /// What errors about the i-th line name: its file and its number there, "notes.txt:17".
  std::string location(std::int64_t i) const;

 private:
  std::shared_ptr<const contents> contents_;
};

/// Tokens, and what follows each of them: what a language model is trained on.
struct token_window {
  vector<std::int64_t> inputs, targets;
};
/// Windows of a stream of tokens. Samples share its memory.
export class window_dataset {
 public:
  window_dataset(vector<std::int64_t> ids, std::int64_t length, std::int64_t stride);
  std::int64_t size() const { return size_; }
  /// Tokens i * stride to i * stride + length - 1, and those one later.   Errors: value_error for an index outside 0..size() - 1.
  token_window operator[](std::int64_t i) const;

 private:
  vector<std::int64_t> ids_;
  std::int64_t length_ = 0, stride_ = 0, size_ = 0;
};

export namespace datasets {

/// Reads a file of text, whose lines end with \n or \r\n, the last perhaps with nothing. A byte order mark is left out.
/// Errors: file_error for a file that cannot be read, and for bytes that are no UTF-8, naming their line.
line_dataset lines(const std::string& path, const line_options& o = {});
/// The same of text in memory; `name` begins the messages.
line_dataset lines_of(std::string text, const line_options& o = {}, std::string_view name = "text");

/// Windows of `length` tokens, one beginning every `stride`, as long as there is a token after the window; a stride of 0 is
/// the length.   Errors: value_error for a length below 1 or a negative stride.
window_dataset token_windows(const vector<std::int64_t>& ids, std::int64_t length, std::int64_t stride = 0);
window_dataset token_windows(const std::vector<std::int64_t>& ids, std::int64_t length, std::int64_t stride = 0);

}  // namespace datasets

}  // namespace lamina
