module lamina.pictures:folder.impl;
import :folder;
import :format;
import lamina;
import lamina.std;

namespace lamina::pictures {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t max_file = std::uint64_t(1) << 30;

[[noreturn]] void refuse(error_kind kind, std::string_view path, std::string_view why) {
  text t;
  detail::raise(kind, t << printable(path, 300) << ": " << why);
}

std::vector<std::uint8_t> bytes_of(const std::string& path) {
  std::error_code failed;
  if (!fs::is_regular_file(path, failed)) refuse(error_kind::file, path, "no such file");
  const auto size = fs::file_size(path, failed);
  if (failed) refuse(error_kind::file, path, failed.message());
  if (size > max_file) refuse(error_kind::file, path, "the file is larger than 1 GiB, the limit for a picture");
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) refuse(error_kind::file, path, "the file cannot be opened");
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(size));
  bytes.resize(std::fread(bytes.data(), 1, bytes.size(), file.get()));
  return bytes;
}

}  // namespace

picture_tensor read_bytes(view<const std::uint8_t> file, std::string_view name, color channels) {
  const picture p = decode(file);
  if (!p.pixels)
    refuse(p.unsupported ? error_kind::unsupported : error_kind::file, name,
           file.empty() ? "the file is empty" : p.why);
  const std::int64_t height = p.pixels.shape().at(0), width = p.pixels.shape().at(1);
  const auto plane = static_cast<std::size_t>(height * width);
  auto out = picture_tensor::uninitialized({channels == color::gray ? 1 : 3, height, width});
  std::uint8_t* to = out.writable().data();
  const auto* from = reinterpret_cast<const std::uint8_t*>(p.pixels.data());
  if (channels == color::gray)
    for (std::size_t i = 0; i < plane; ++i) to[i] = gray_of(from[3 * i], from[3 * i + 1], from[3 * i + 2]);
  else
    for (std::size_t c = 0; c < 3; ++c)
      for (std::size_t i = 0; i < plane; ++i) to[c * plane + i] = from[3 * i + c];
  return out;
}

picture_tensor read(const std::string& path, color channels) {
  const auto bytes = bytes_of(path);
  return read_bytes({bytes.data(), bytes.size()}, path, channels);
}

folder::folder(const std::string& directory, color channels)
    : directory_(directory),
      all_(std::make_shared<const files_by_class>(
          list_by_class(directory, {".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".pnm", ".ppm"}))),
      channels_(channels) {}

const files_by_class::file& folder::at(std::int64_t i) const {
  if (i >= 0 && i < size()) return all_->files[static_cast<std::size_t>(i)];
  text t;
  t << "pictures::folder: index " << i << " is outside 0.." << size() - 1 << "; " << printable(directory_, 300)
    << " has " << size() << (size() == 1 ? " picture" : " pictures");
  detail::raise(error_kind::value, t);
}

labeled_picture folder::operator[](std::int64_t i) const {
  const auto& f = at(i);
  return {read(f.path, channels_), f.label};
}

}  // namespace lamina::pictures
