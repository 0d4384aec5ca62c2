#include "tuner/evaluate/staging.hpp"

#include <algorithm>
#include <atomic>

#include "vocabulary/rounding.hpp"

namespace tilewise {
namespace {

constexpr std::int64_t kPieceBytes = 1 << 20;
constexpr std::int64_t kMemory = 32 << 20;
constexpr std::int64_t kMostSlots = 32;

std::int64_t slot_bytes(std::span<const Placement> places) {
  std::int64_t bytes = 4096;
  for (const Placement& place : places) bytes = std::max(bytes, longest_piece(place, kPieceBytes));
  return round_up(bytes, 4096);
}

}  // namespace

void Staging::Slot::finish_task() {
  if (task.valid()) task.get();
}

void Staging::Slot::finish_copy() {
  if (copying) copied->wait();
  copying = false;
}

struct Staging::Settled {
  Staging& staging;
  ~Settled() {
    for (Slot& slot : staging.slots_) {
      if (slot.task.valid()) slot.task.wait();
      slot.task = {};
    }
  }
};

Staging::Staging(Device& device, std::span<const Placement> places, int threads)
    : device_(device), piece_bytes_(kPieceBytes), pool_(thread_count(threads)) {
  const std::int64_t bytes = slot_bytes(places);
  const std::int64_t count = std::clamp<std::int64_t>(kMemory / bytes, 1, kMostSlots);
  memory_ = HostBuffer(device, count * bytes);
  for (std::int64_t i = 0; i < count; ++i) {
    Slot& slot = slots_.emplace_back();
    slot.data = memory_.data() + i * bytes;
    slot.copied = device.create_event();
  }
}

Staging::~Staging() = default;

void Staging::upload(Stream stream, const DeviceMatrix& to, const TestData& values) {
  const Placement& place = to.placement();
  const std::int64_t payload = place.columns * place.element_bytes;
  device_.fill32(to.allocation(), canary_word(place.element_bytes), place.bytes / 4, stream);
  std::vector<Piece> pieces = pieces_of(place, piece_bytes_);
  std::erase_if(pieces, [](const Piece& piece) { return piece.rows == 0; });
  const Settled settled{*this};
  const std::size_t count = slots_.size();
  std::size_t sent = 0;
  const auto send = [&] {  // the oldest slot being generated
    Slot& slot = slots_[sent % count];
    slot.finish_task();
    const Piece& piece = pieces[sent++];
    device_.copy_to_device(static_cast<std::byte*>(to.allocation()) + piece.offset, slot.data,
                           piece.bytes, stream);
    slot.copied->record(stream);
    slot.copying = true;
  };
  for (std::size_t made = 0; made < pieces.size(); ++made) {
    // Half of the slots are generated while the other half is copied.
    if (made - sent > count / 2 || made - sent == count) send();
    Slot& slot = slots_[made % count];
    slot.finish_copy();
    slot.task = pool_.run([&, data = slot.data, piece = pieces[made]] {
      const std::int64_t base = place.offset_of(piece.first_row);
      for (std::int64_t row = piece.first_row; row < piece.first_row + piece.rows; ++row) {
        std::byte* line = data + place.offset_of(row) - base;
        values.fill(row * values.columns(), values.columns(), line);
        const std::int64_t gap = place.offset_of(row + 1) - place.offset_of(row) - payload;
        fill_canary(line + payload, gap, place.element_bytes);
      }
    });
  }
  while (sent < pieces.size()) send();
  for (Slot& slot : slots_) slot.finish_copy();
  device_.synchronize(stream);
}

void Staging::download(Stream stream, const DeviceMatrix& from, const Judge& judge) {
  const std::vector<Piece> pieces = pieces_of(from.placement(), piece_bytes_);
  const Settled settled{*this};
  const std::size_t count = slots_.size();
  std::size_t handed = 0;
  const auto hand_over = [&] {  // the oldest slot being copied
    Slot& slot = slots_[handed % count];
    slot.copied->wait();
    slot.task =
        pool_.run([&judge, data = slot.data, piece = pieces[handed]] { judge(piece, data); });
    ++handed;
  };
  for (std::size_t sent = 0; sent < pieces.size(); ++sent) {
    // Half of the slots are copied while the other half is judged.
    if (sent - handed > count / 2 || sent - handed == count) hand_over();
    Slot& slot = slots_[sent % count];
    slot.finish_task();
    device_.copy_to_host(slot.data,
                         static_cast<std::byte*>(from.allocation()) + pieces[sent].offset,
                         pieces[sent].bytes, stream);
    slot.copied->record(stream);
  }
  while (handed < pieces.size()) hand_over();
  for (Slot& slot : slots_) slot.finish_task();
}

bool Staging::unchanged(Stream stream, const DeviceMatrix& matrix, const TestData& values) {
  const Placement& place = matrix.placement();
  std::atomic<bool> same{true};
  download(stream, matrix, [&](const Piece& piece, const std::byte* copy) {
    bool right = !broken_guard(place, piece, copy).found;
    const std::int64_t base = place.offset_of(piece.first_row);
    for (std::int64_t row = piece.first_row; right && row < piece.first_row + piece.rows; ++row) {
      right = values.matches(row * values.columns(), values.columns(),
                             copy + place.offset_of(row) - base);
    }
    if (!right) same = false;
  });
  return same;
}

}  // namespace tilewise
