// An ONNX file in memory, and the tensors in it or in the files of external data beside it.
module lamina.onnx:source;
import :message;
import lamina;
import lamina.std;

namespace lamina::onnx {

using text = message_text;

/// Bytes of a file that are mapped, or of the caller.
class file_bytes {
 public:
  /// Errors: file_error where the file cannot be opened or mapped.
  explicit file_bytes(const std::string& path);
  file_bytes(const file_bytes&) = delete;
  file_bytes& operator=(const file_bytes&) = delete;
  ~file_bytes();
  std::string_view all() const { return {data_, size_}; }

 private:
  const char* data_ = nullptr;
  std::size_t size_ = 0;
};

/// What the tensors of a model may take once they are read: the bytes of its files, each counted once, and some more, as a
/// function that is called twice is read twice. Files whose tensors all lie on the same bytes are refused by it.
class read_account {
 public:
  void add(std::size_t file_bytes) { left_ += file_bytes; }
  /// The same for a file of external data, which counts once.
  void add(std::size_t file_bytes, std::uint64_t device, std::uint64_t number) {
    if (seen_.emplace(device, number).second) add(file_bytes);
  }
  /// False where there are not as many.
  bool take(std::size_t bytes) { return bytes <= left_ && (left_ -= bytes, true); }

 private:
  std::size_t left_ = std::size_t(64) << 20;
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen_;
};

/// Where tensors come from: how messages call the file, and the folder in which its external data lie.
struct source {
  std::string file;
  std::string folder{};  // empty: bytes in memory, which have no external data
  std::shared_ptr<read_account> account = std::make_shared<read_account>();
  [[noreturn]] void fail(const text& why) const;
};

/// lamina's element type for one of ONNX; none where there is no such.
std::optional<dtype> element_of(element_code code);
/// How ONNX calls an element type.
std::string_view name_of(element_code code);
element_code code_of(dtype element);

/// The elements of a tensor, in memory of their own. `what` names it in messages: "initializer `w`".
/// Errors: file_error where extents, element type and data do not fit, checked before anything is allocated; unsupported_error for
/// an element type that lamina does not have.
any_tensor elements_of(const tensor_message& t, const source& from, std::string_view what);
/// A sparse tensor written out. Errors: as above; value positions outside of the tensor.
any_tensor elements_of(const sparse_tensor_message& t, const source& from, std::string_view what);

}  // namespace lamina::onnx
