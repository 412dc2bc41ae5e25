// Folders of sounds, one for each class.
export module lamina:audio.folder;
import :core;
import :audio;
import lamina.std;

namespace lamina {

/// A sound and the number of its class.
export struct labeled_sound {
  waveform sound;
  std::int64_t label = 0;
};
/// What all sounds of a folder are made to be.
struct audio_folder_options {
  std::int64_t rate = 0;    ///< frames in a second; 0 for those of each file
  std::int64_t frames = 0;  ///< longer sounds are cut off, shorter ones filled up with zeros; 0 for the length of each
  bool mono = true;         ///< the mean of all channels
};

/// WAV files with a class each, read when they are asked for. Copies share the list of files; several threads may read.
export class audio_dataset {
 public:
  struct listing;
  explicit audio_dataset(std::shared_ptr<const listing> l);
  std::int64_t size() const;
  /// The i-th sound. Errors: value_error for an index outside 0..size() - 1; those of `read_wav`.
  labeled_sound operator[](std::int64_t i) const;
  const std::string& file(std::int64_t i) const;
  /// What errors about the i-th sound name.
  const std::string& location(std::int64_t i) const { return file(i); }
  std::int64_t label(std::int64_t i) const;
  const std::vector<std::string>& class_names() const;

 private:
  void check(std::int64_t i) const;
  std::shared_ptr<const listing> listing_;
};

export namespace datasets {
/// The files `directory/<class>/*.wav`, as `list_by_class` finds them. Errors: those of it; value_error for negative options.
audio_dataset audio_folder(const std::string& directory, const audio_folder_options& o = {});
}  // namespace datasets

}  // namespace lamina
