// Tokenizers: text as numbers of a vocabulary, and back.
export module lamina:tokenizer;
import :core;
import :tensor;
import lamina.std;

namespace lamina {

namespace detail {
struct tokenizer_parts;
}

/// What becomes of bytes that are no UTF-8: an error, or U+FFFD for each maximal subpart.
export enum class invalid_utf8 { refuse, replace };
/// The side of a text where tokens are cut off or filled up.
export enum class text_side { left, right };

/// Which text of a pair is cut off: the longer one until both are equally long, or always the same one.
export enum class cut_rule { longest_first, only_first, only_second };

/// A token that is found in a text before the text is split.
export struct added_token {
  std::string content{};
  std::int64_t id = 0;
  bool single_word = false;             ///< not inside a word
  bool lstrip = false, rstrip = false;  ///< takes white space on that side
  bool normalized = true;               ///< is found after normalization
  bool special = false;                 ///< is left out where ids are decoded
};

/// How texts are encoded.
export struct encode_options {
  bool special = true;  ///< with the special tokens of the post-processor, as [CLS] and [SEP]
  invalid_utf8 on_invalid = invalid_utf8::refuse;
};
/// How texts become one batch. A tokenizer read from a file has those of its fields `truncation` and `padding`.
export struct token_batch_options {
  std::int64_t max_length = 0;  ///< longer texts are cut off, their special tokens kept; 0 for no limit
  std::int64_t length = 0;      ///< texts are filled up to it; 0 for the longest of the batch
  std::int64_t multiple = 1;    ///< lengths are rounded up to multiples of it
  std::int64_t pad_id = 0, pad_type = 0;
  text_side pad_side = text_side::right, cut_side = text_side::right;
  cut_rule cut = cut_rule::longest_first;
  bool special = true;
  invalid_utf8 on_invalid = invalid_utf8::refuse;
};

/// Texts of one batch, [texts x length].
export struct token_batch {
  matrix<std::int64_t> ids;
  matrix<std::int64_t> mask;   ///< 1 for a token, 0 for what fills up
  matrix<std::int64_t> types;  ///< 0 for the first text, 1 for the second of a pair
  std::vector<std::int64_t> lengths;
};

/// A vocabulary with all steps from a text to its numbers and back: normalizer, pre-tokenizer, model, post-processor, decoder.
/// Copies share their tables. Several threads may use one.
/// Source: the form of files and the meaning of their fields are those of Hugging Face's `tokenizers`.
export class tokenizer {
 public:
  explicit tokenizer(std::shared_ptr<const detail::tokenizer_parts> parts);
  tokenizer(const tokenizer&) = default;  // also where it is moved: no tokenizer is without its tables
  tokenizer& operator=(const tokenizer&) = default;

  /// The ids of a text.   Errors: value_error for bytes that are no UTF-8, naming the first of them.
  template <std::integral T = std::int64_t> requires(sizeof(T) >= 4)
  std::vector<T> encode(std::string_view text, encode_options o = {}) const {
    std::vector<T> ids;
    const std::vector<std::uint32_t> all = encoded(text, nullptr, o);
    ids.reserve(all.size());
    for (const std::uint32_t id : all) ids.push_back(static_cast<T>(id));
    return ids;
  }
  /// The ids of two texts, as of a question and an answer.
  template <std::integral T = std::int64_t> requires(sizeof(T) >= 4)
  std::vector<T> encode_pair(std::string_view first, std::string_view second, encode_options o = {}) const {
    std::vector<T> ids;
    for (const std::uint32_t id : encoded(first, &second, o)) ids.push_back(static_cast<T>(id));
    return ids;
  }
  /// Texts as one batch; `seconds`, where it is not empty, has the second text of each pair.
  /// Errors:  value_error for options that fit no text, or another number of second texts.
  token_batch encode_batch(view<const std::string> texts, const token_batch_options& o,
                           view<const std::string> seconds = {}) const;
  token_batch encode_batch(view<const std::string> texts) const { return encode_batch(texts, batching()); }
  /// The text of ids. Numbers that are no ids are left out, and with `skip_special` special tokens.
  std::string decode(view<const std::int64_t> ids, bool skip_special = true) const;
  std::string decode(view<const std::int32_t> ids, bool skip_special = true) const;

  /// The number of tokens, added ones included.
  std::int64_t size() const;
  /// The id of a token, or none.
  std::optional<std::int64_t> id_of(std::string_view token) const;
  /// The token of an id, or none.
  std::optional<std::string> token_of(std::int64_t id) const;
  /// Tokens that are found before a text is split.
  const std::vector<added_token>& added() const;
  /// What `encode_batch` does where it is not told.
  const token_batch_options& batching() const;
  /// What a normalizer makes of a text, and the pieces that a pre-tokenizer makes of that.
  std::string normalize(std::string_view text) const;
  std::vector<std::string> split(std::string_view text) const;

  /// The tokenizer as a JSON document, `tokenizer.json`.
  std::string to_json() const;
  /// Writes `to_json` with `write_file_atomically`.   Errors: file_error.
  void save(const std::string& path) const;

 private:
  std::vector<std::uint32_t> encoded(std::string_view text, const std::string_view* second, encode_options o) const;
  std::shared_ptr<const detail::tokenizer_parts> parts_;
};

/// Reads a `tokenizer.json`.
/// Errors: file_error naming file and field; unsupported_error for a part that lamina does not have.
export tokenizer load_tokenizer(const std::string& path);
/// The same of a document in memory; `name` begins the messages.
export tokenizer read_tokenizer(std::string_view json, std::string_view name = "tokenizer");

/// Each byte is a token, whose id is its value; special tokens have the ids from 256 on.
export tokenizer byte_tokenizer(const std::vector<std::string>& special = {});

/// How words are found where a tokenizer is trained.
export enum class word_split {
  byte_level,       ///< the pattern of GPT-2: words with the space before them
  whitespace,       ///< words, and runs of other characters, without white space
  whitespace_only,  ///< runs of characters without white space
  bert              ///< at white space, each punctuation mark by itself
};

/// How a vocabulary of pairs that are merged is trained.
export struct bpe_options {
  std::int64_t size = 30000;           ///< tokens, special ones and the alphabet included
  std::vector<std::string> special{};  ///< have the first ids
  std::int64_t min_frequency = 0;      ///< of a pair that is merged
  word_split split = word_split::byte_level;
  bool prefix_space = false;  ///< byte_level: a text begins like a word in its middle
  std::string end_of_word{};  ///< of a word's last token, as `</w>`; not with byte_level
  std::string unknown{};      ///< the special token of characters without one; they are left out if it is empty
  bool lowercase = false;
  std::int64_t max_alphabet = 0;  ///< rare characters beyond it have no token; 0 for no limit
};
export struct wordpiece_options {
  std::int64_t size = 30000;
  std::vector<std::string> special{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};  ///< with `unknown`
  std::int64_t min_frequency = 0;
  std::string unknown = "[UNK]", continuing = "##";
  bool lowercase = true, strip_accents = true;
  std::int64_t max_alphabet = 0;
};
export struct word_options {
  std::int64_t size = 30000;
  std::vector<std::string> special{"[UNK]"};  ///< with `unknown`
  std::int64_t min_frequency = 0;
  std::string unknown = "[UNK]";
  word_split split = word_split::whitespace;
  bool lowercase = true;
};

export namespace bpe {
/// Merges the most frequent pair of tokens again and again. Of equally frequent ones the pair of lower ids is first.
/// Errors:  value_error for options that contradict each other, or a text that is no UTF-8.
/// Source:  Sennrich, Haddow, Birch, "Neural Machine Translation of Rare Words with Subword Units" (2016), arXiv:1508.07909.
tokenizer train(view<const std::string> texts, const bpe_options& o = {});
}  // namespace bpe
export namespace wordpiece {
/// Tokens as `bpe::train` finds them, in words whose later tokens begin with `continuing`; encoded by the longest token first.
/// With [CLS] and [SEP] among the special tokens, texts stand between them.
/// Source:  Devlin, Chang, Lee, Toutanova, "BERT" (2019), arXiv:1810.04805.
tokenizer train(view<const std::string> texts, const wordpiece_options& o = {});
}  // namespace wordpiece
export namespace word_level {
/// The most frequent words; of equally frequent ones in the order of their bytes.
tokenizer train(view<const std::string> texts, const word_options& o = {});
}  // namespace word_level

}  // namespace lamina
