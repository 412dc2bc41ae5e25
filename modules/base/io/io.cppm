// File formats, parsed as untrusted input, and atomic replacement of files.
export module lamina:io;
import :core;
import :tensor;
import lamina.std;

namespace lamina {

// ---- names from files -----------------------------------------------------------------------------------------------

/// Makes text from a file safe for one line of a message or a terminal: control characters become \n, \t, \r or \x1b,
/// and long text is cut to `max` bytes and its length.
export std::string printable(std::string_view name, std::size_t max = 100);

export namespace detail {
/// Decodes a little-endian number of up to 4 bytes.
constexpr std::uint32_t little_endian(const unsigned char* bytes, std::size_t count) {
  std::uint32_t v = 0;
  for (std::size_t i = 0; i < count; ++i) v |= static_cast<std::uint32_t>(bytes[i]) << (8 * i);
  return v;
}
}  // namespace detail

// ---- writing --------------------------------------------------------------------------------------------------------

/// Sink for the bytes of a file being written.
export class writer {
 public:
  writer(const writer&) = delete;
  writer& operator=(const writer&) = delete;
  ~writer();
  /// Appends bytes. Errors: file_error naming file and reason.
  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }

 private:
  friend struct writer_access;
  writer(int descriptor, std::string path);
  void flush();
  void send(const char* data, std::size_t bytes);
  int descriptor_;
  std::string path_;
  std::vector<char> waiting_;
};

/// Writes a file atomically: to a temporary file in the same folder, synced, then renamed over the target. Permissions
/// of an existing file are kept, and a symbolic link is followed, not replaced.  A target that exists and is no regular
/// file (a device, a pipe) is written in place.  If `fill` or the system fails, the old file is untouched and the
/// temporary one is removed; the next write in a folder removes temporary files of killed processes.
/// Errors: file_error naming file and reason; whatever `fill` throws.
export void write_file_atomically(const std::string& path, const std::function<void(writer&)>& fill);

/// An append-only file, such as a log.
export class append_file {
 public:
  /// Opens or creates a file. Errors: file_error naming file and reason.
  explicit append_file(const std::string& path);
  append_file(append_file&&) noexcept;
  append_file& operator=(append_file&&) noexcept;
  ~append_file();
  /// Appends bytes; they are with the operating system on return. Errors: file_error; state_error if moved from.
  void write(std::string_view bytes);

 private:
  struct implementation;
  std::unique_ptr<implementation> impl_;
};

// ---- safetensors ----------------------------------------------------------------------------------------------------

/// A tensor and its name in a file.
export struct named_tensor {
  std::string name;
  any_tensor value;
};

/// The contents of a safetensors file.
export struct safetensors_file {
  std::vector<named_tensor> tensors;  // in file order
  std::map<std::string, std::string> metadata;
  /// The tensor with a name, or null.
  const any_tensor* find(std::string_view name) const;
};

/// Reads a safetensors file: 8 bytes of little-endian header length, a JSON header, the tensors' bytes without gaps.
/// The header maps each name to {"dtype", "shape", "data_offsets": [begin, end)}, and "__metadata__" to strings. The
/// file is mapped, and tensors point into the mapping, which lives as long as any of them: writing to one changes the
/// process's copy, never the file. Tensors misaligned for their element type are copied.
/// Errors: file_error naming file, tensor, expected and actual value; the whole header is checked before any tensor is
/// allocated.
/// Source: https://github.com/huggingface/safetensors, "Format".
export safetensors_file read_safetensors(const std::string& path);

/// A safetensors file whose tensors are read one by one, each into its own memory. If the file changes meanwhile,
/// values are wrong or a file_error is raised, but never a signal.
class safetensors_reader {
 public:
  struct entry {
    std::string name;
    tensor_type type;
  };
  /// Reads and checks the header. Errors: like `read_safetensors`.
  explicit safetensors_reader(const std::string& path);
  ~safetensors_reader();
  std::vector<entry> tensors;  // in file order
  std::map<std::string, std::string> metadata;
  const entry* find(std::string_view name) const;
  /// One of `tensors`. Errors: file_error; out_of_memory.
  any_tensor read(const entry& what) const;

 private:
  struct implementation;
  std::unique_ptr<implementation> impl_;
};

/// Writes tensors with `write_file_atomically`, wider element types first, so that each is aligned in the file.
/// Errors: value_error for a repeated or reserved name; file_error.
export void write_safetensors(const std::string& path, view<const named_tensor> tensors,
                              const std::map<std::string, std::string>& metadata = {});
/// Same, for tensors whose bytes `elements(i, out)` writes, called once for each, in file order.
void write_safetensors(const std::string& path, view<const safetensors_reader::entry> tensors,
                       const std::map<std::string, std::string>& metadata,
                       const std::function<void(std::size_t i, writer& out)>& elements);

// ---- npy, npz -------------------------------------------------------------------------------------------------------

/// Reads an npy file of version 1.0 to 3.0, in C or Fortran order and either byte order; the result is row-major.
/// bfloat16, which NumPy lacks, is an untyped two-byte element, `V2`, as ml_dtypes writes it.
/// Errors: file_error naming file, field, expected and actual value; unsupported_error for another version or element
/// type. Sizes are checked against the file before any allocation.
/// Source:  NumPy, "A simple file format for NumPy arrays" (NEP 1), numpy.lib.format.
export any_tensor read_npy(const std::string& path);
/// Writes an npy file of version 1.0 with `write_file_atomically`. Errors: file_error.
export void write_npy(const std::string& path, const any_tensor& v);

/// Reads an npz file: a zip archive of npy files, stored or deflated, in directory order.
/// Errors: like `read_npy`, naming the array; nothing is unpacked beyond the size in the directory.
/// Source:  PKWARE, ".ZIP file format specification" 6.3.10, sections 4.3 to 4.5.
export std::vector<named_tensor> read_npz(const std::string& path);
/// Writes an npz file with `write_file_atomically`. Errors: value_error for a repeated name, or for 4 GiB or more; file_error.
export void write_npz(const std::string& path, view<const named_tensor> arrays, bool compressed = false);

// ---- idx ------------------------------------------------------------------------------------------------------------

/// Reads an idx file, plain or compressed by gzip: two zero bytes, the element type (8 uint8, 9 int8, 11 int16, 12
/// int32, 13 float32, 14 float64), the rank, each extent as 4 big-endian bytes, the elements, big-endian.
/// Errors: file_error naming file, field, expected and actual value. The header is checked against the file size before
/// any allocation, and limits how much is decompressed.
/// Source: LeCun, Cortes, Burges, "The MNIST database of handwritten digits", "The IDX file format".
export any_tensor read_idx(const std::string& path);

}  // namespace lamina
