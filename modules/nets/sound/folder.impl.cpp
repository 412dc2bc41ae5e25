module;
#include <dirent.h>
#include <cerrno>
module lamina:audio.folder.impl;
import :core;
import :audio;
import :audio.folder;
import :io.file.impl;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

struct audio_dataset::listing {
  audio_folder_options options;
  std::vector<std::string> class_names, files;
  std::vector<std::int64_t> labels;
};

namespace {

/// Names in a folder, in order, without those that begin with a point.
std::vector<std::string> names_in(const std::string& directory) {
  DIR* const all = ::opendir(directory.c_str());
  if (!all) detail::system_failure(directory, "cannot be read", errno);
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(all))
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  ::closedir(all);
  std::sort(names.begin(), names.end());
  return names;
}
bool is_wav(std::string_view name) {
  if (name.size() < 4) return false;
  const std::string_view end = name.substr(name.size() - 4);
  return end == ".wav" || end == ".WAV";
}
waveform with_frames(const waveform& w, std::int64_t frames) {
  if (w.frames() == frames) return w;
  waveform made{matrix<float>({w.channels(), frames}), w.rate};
  auto out = made.samples.writable();
  const auto in = w.samples.data();
  const auto from = static_cast<std::size_t>(w.frames()), to = static_cast<std::size_t>(frames), n = std::min(from, to);
  for (std::size_t c = 0; c < static_cast<std::size_t>(w.channels()); ++c)
    std::copy_n(in.data() + c * from, n, out.data() + c * to);
  return made;
}

}  // namespace

audio_dataset::audio_dataset(std::shared_ptr<const listing> l) : listing_(std::move(l)) {}
std::int64_t audio_dataset::size() const { return static_cast<std::int64_t>(listing_->files.size()); }
const std::vector<std::string>& audio_dataset::class_names() const { return listing_->class_names; }
void audio_dataset::check(std::int64_t i) const {
  if (i >= 0 && i < size()) return;
  text t;
  detail::raise(error_kind::value, t << "audio_dataset: index " << i << " is outside 0.." << size() - 1);
}
const std::string& audio_dataset::file(std::int64_t i) const {
  check(i);
  return listing_->files[static_cast<std::size_t>(i)];
}
std::int64_t audio_dataset::label(std::int64_t i) const {
  check(i);
  return listing_->labels[static_cast<std::size_t>(i)];
}
labeled_sound audio_dataset::operator[](std::int64_t i) const {
  const audio_folder_options& o = listing_->options;
  waveform w = read_wav(file(i));
  if (o.mono) w = to_mono(w);
  if (o.rate > 0) w = resample(w, o.rate);
  if (o.frames > 0) w = with_frames(w, o.frames);
  return {std::move(w), label(i)};
}

audio_dataset datasets::audio_folder(const std::string& directory, const audio_folder_options& o) {
  if (o.rate < 0 || o.frames < 0) {
    text t;
    detail::raise(error_kind::value,
                  t << "audio_folder: a rate of " << o.rate << " and " << o.frames << " frames; expected 0 or more");
  }
  auto made = std::make_shared<audio_dataset::listing>();
  made->options = o;
  for (const std::string& name : names_in(directory)) {
    const std::string folder = directory + "/" + name;
    if (!std::filesystem::is_directory(folder)) continue;
    const auto label = static_cast<std::int64_t>(made->class_names.size());
    made->class_names.push_back(name);
    for (const std::string& file : names_in(folder)) {
      if (!is_wav(file)) continue;
      made->files.push_back(folder + "/" + file);
      made->labels.push_back(label);
    }
  }
  if (made->files.empty())
    detail::file_failure(directory, "no file <class>/*.wav is in it; each class is a folder of its own");
  return audio_dataset(std::move(made));
}

}  // namespace lamina
