// Data-parallel training of a multilayer perceptron: the ranks sum their gradients in every step.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "bench/apps/common/job.hpp"
#include "bench/apps/common/stamps.hpp"
#include "bench/kit/pattern.hpp"

namespace apps {

/// Square layers. A batch is `batch` rows of `width` inputs.
struct Network {
  static constexpr std::size_t layers = 4;
  std::size_t width, batch;
  std::size_t weights_of_layer() const { return width * width; }
  std::size_t weights() const { return layers * weights_of_layer(); }
};

/// out[rows x width] = in[rows x width] * weights[width x width], in one of three transpositions.
[[gnu::noinline]] inline void multiply(const float* in, const float* weights, float* out, std::size_t rows,
                                       std::size_t width) {
  std::memset(out, 0, rows * width * sizeof(float));
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t k = 0; k < width; ++k)
      for (std::size_t j = 0; j < width; ++j) out[row * width + j] += in[row * width + k] * weights[k * width + j];
}
/// gradient[width x width] = in^T * delta
[[gnu::noinline]] inline void gradient_of(const float* in, const float* delta, float* gradient, std::size_t rows,
                                          std::size_t width) {
  std::memset(gradient, 0, width * width * sizeof(float));
  for (std::size_t i = 0; i < width; ++i)
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t j = 0; j < width; ++j) gradient[i * width + j] += in[row * width + i] * delta[row * width + j];
}
[[gnu::noinline]] inline void transpose(const float* in, float* out, std::size_t width) {
  for (std::size_t i = 0; i < width; ++i)
    for (std::size_t j = 0; j < width; ++j) out[j * width + i] = in[i * width + j];
}

/// The computation of one rank: forward and backward. `ready(layer)` is called when the layer's gradient is complete,
/// the last layer first.
class Trainer {
 public:
  Trainer(Network network, int rank)
      : network_(network),
        activations_(Network::layers + 1),
        weights_(network.weights()),
        transposed_(network.weights_of_layer()) {
    const std::size_t values = network.batch * network.width;
    for (auto& activation : activations_) activation.resize(values);
    delta_.resize(values);
    next_delta_.resize(values);
    target_.resize(values);
    for (std::size_t i = 0; i < values; ++i) {
      activations_[0][i] = static_cast<float>(bench::fraction(static_cast<std::uint64_t>(rank + 1) << 40 | i) - 0.5);
      target_[i] = static_cast<float>(bench::fraction(static_cast<std::uint64_t>(rank + 1) << 41 | i) - 0.5);
    }
    reset();
  }

  void reset() {
    const float scale = 2 / std::sqrt(static_cast<float>(network_.width));
    for (std::size_t i = 0; i < weights_.size(); ++i)
      weights_[i] = static_cast<float>(bench::fraction(7 * i) - 0.5) * scale;
  }

  template <typename Ready> void gradients(float* gradients, Ready ready) {
    const std::size_t rows = network_.batch, width = network_.width, layer_weights = network_.weights_of_layer();
    for (std::size_t layer = 0; layer < Network::layers; ++layer) {
      multiply(activations_[layer].data(), &weights_[layer * layer_weights], activations_[layer + 1].data(), rows,
               width);
      for (float& value : activations_[layer + 1]) value = value > 0 ? value : 0.1F * value;
    }
    for (std::size_t i = 0; i < delta_.size(); ++i)
      delta_[i] = slope(activations_.back()[i]) * (activations_.back()[i] - target_[i]) / static_cast<float>(rows);
    for (std::size_t layer = Network::layers; layer-- > 0;) {
      gradient_of(activations_[layer].data(), delta_.data(), gradients + layer * layer_weights, rows, width);
      ready(layer);
      if (layer == 0) break;
      transpose(&weights_[layer * layer_weights], transposed_.data(), width);
      multiply(delta_.data(), transposed_.data(), next_delta_.data(), rows, width);
      for (std::size_t i = 0; i < delta_.size(); ++i) delta_[i] = next_delta_[i] * slope(activations_[layer][i]);
    }
  }

  void update(const float* gradients, float rate) {
    for (std::size_t i = 0; i < weights_.size(); ++i) weights_[i] -= rate * gradients[i];
  }
  const std::vector<float>& weights() const { return weights_; }

 private:
  static float slope(float value) { return value > 0 ? 1.0F : 0.1F; }

  Network network_;
  std::vector<std::vector<float>> activations_;
  std::vector<float> weights_, transposed_, delta_, next_delta_, target_;
};

/// Modes: blocking (one allreduce of all gradients after the backward pass), overlapped (an iallreduce per layer,
/// started when its gradient is complete), persistent (as overlapped).
template <typename Library> class Training {
 public:
  Training(Library& library, const Job& job)
      : library_(library),
        network_{static_cast<std::size_t>(job.size), job.size <= 256 ? std::size_t{64} : std::size_t{32}},
        trainer_(network_, library.rank()),
        blocking_(job.mode == "blocking") {
    library.reserve(network_.weights() * sizeof(float) + (64 << 10));
    gradients_ = library.template allocate<float>(network_.weights());
    if (!blocking_) {
      std::vector<std::span<float>> layers;
      for (std::size_t layer = 0; layer < Network::layers; ++layer)
        layers.emplace_back(gradients_ + layer * network_.weights_of_layer(), network_.weights_of_layer());
      buckets_.emplace(library, layers, job.mode);
    }
    library.barrier();
  }

  void reset() { trainer_.reset(); }

  void step(Stamps* stamps) {
    trainer_.gradients(gradients_, [&](std::size_t layer) {
      if (stamps != nullptr && !blocking_) stamps->start([&] { buckets_->start(layer); });
    });
    if (stamps != nullptr) {
      stamps->call(all_ranks(library_.size()), [&] {
        if (blocking_)
          library_.allreduce(gradients_, network_.weights());
        else
          buckets_->finish();
      });
    }
    trainer_.update(gradients_, rate());
  }

  /// Compares the weights with those of one rank that computes the batches of all. The order of a sum differs.
  bool is_right(int steps) const {
    std::vector<Trainer> ranks;
    for (int rank = 0; rank < library_.size(); ++rank) ranks.emplace_back(network_, rank);
    std::vector<float> sum(network_.weights()), part(network_.weights());
    for (int step = 0; step < steps; ++step) {
      std::fill(sum.begin(), sum.end(), 0.0F);
      for (Trainer& rank : ranks) {
        rank.gradients(part.data(), [](std::size_t) {});
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
      }
      for (Trainer& rank : ranks) rank.update(sum.data(), rate());
    }
    for (std::size_t i = 0; i < sum.size(); ++i)
      if (!(std::abs(trainer_.weights()[i] - ranks[0].weights()[i]) <= 1e-7F)) return false;
    return true;
  }

 private:
  float rate() const { return 0.1F / static_cast<float>(library_.size()); }

  Library& library_;
  Network network_;
  Trainer trainer_;
  bool blocking_;
  float* gradients_ = nullptr;
  std::optional<typename Library::Buckets> buckets_;
};

}  // namespace apps
