// An ONNX file in memory, and its tensors, inline or in external data files.
module lamina.onnx:source;
import :message;
import lamina;
import lamina.std;

namespace lamina::onnx {

using text = message_text;

/// Bytes of a mapped file, or of the caller.
class file_bytes {
 public:
  /// Errors: file_error if the file cannot be opened or mapped.
  explicit file_bytes(const std::string& path);
  file_bytes(const file_bytes&) = delete;
  file_bytes& operator=(const file_bytes&) = delete;
  ~file_bytes();
  std::string_view all() const { return {data_, size_}; }

 private:
  const char* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Memory budget for the tensors of a model: the bytes of its files, each counted once, plus a margin, since a function
/// that is called twice is read twice. It rejects files whose tensors all alias the same bytes.
class read_account {
 public:
  void add(std::size_t file_bytes) { left_ += file_bytes; }
  /// The same for an external data file, which is counted once.
  void add(std::size_t file_bytes, std::uint64_t device, std::uint64_t number) {
    if (seen_.emplace(device, number).second) add(file_bytes);
  }
  /// False if the budget is exceeded.
  bool take(std::size_t bytes) { return bytes <= left_ && (left_ -= bytes, true); }

 private:
  std::size_t left_ = std::size_t(64) << 20;
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen_;
};

/// Origin of tensors: the file's name in messages, and the folder of its external data.
struct source {
  std::string file;
  std::string folder{};  // empty: a file in memory, without external data
  std::shared_ptr<read_account> account = std::make_shared<read_account>();
  [[noreturn]] void fail(const text& why) const;
};

/// lamina's element type for an ONNX type; none if there is no equivalent.
std::optional<dtype> element_of(element_code code);
/// ONNX's name of an element type.
std::string_view name_of(element_code code);
element_code code_of(dtype element);

/// Copies the elements of a tensor. `what` names it in messages: "initializer `w`".
/// Errors: file_error if extents, element type and data do not agree, checked before allocation; unsupported_error for
/// an element type that lamina does not have.
any_tensor elements_of(const tensor_message& t, const source& from, std::string_view what);
/// A sparse tensor, converted to dense. Errors: as above; also for positions outside of the tensor.
any_tensor elements_of(const sparse_tensor_message& t, const source& from, std::string_view what);

}  // namespace lamina::onnx
