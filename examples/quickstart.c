/* quickstart.cpp through the C interface: ClippedScion on raw buffers. Two layers W1 (4x3) and W2
 * (2x4) learn |W2 W1 - A|^2 / 2. */
#include <stdio.h>
#include <string.h>

#include "normball/normball_c.h"

enum { OUT = 2, HIDDEN = 4, IN = 3 };

static const float target[OUT][IN] = {{1, 2, 0}, {-1, 0.5f, 1}};
static float w1[HIDDEN][IN] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {0, 0, 0}};
static float w2[OUT][HIDDEN] = {{0.1f, 0.1f, 0.1f, 0.1f}, {0.1f, -0.1f, 0.1f, -0.1f}};
static float g1[HIDDEN][IN], g2[OUT][HIDDEN];

static float loss_and_gradients(void) {
  float loss = 0;
  memset(g1, 0, sizeof g1);
  memset(g2, 0, sizeof g2);
  for (int i = 0; i < OUT; ++i) {
    for (int j = 0; j < IN; ++j) {
      float residual = -target[i][j];
      for (int k = 0; k < HIDDEN; ++k) residual += w2[i][k] * w1[k][j];
      loss += residual * residual / 2;
      for (int k = 0; k < HIDDEN; ++k) {
        g2[i][k] += residual * w1[k][j];
        g1[k][j] += residual * w2[i][k];
      }
    }
  }
  return loss;
}

int main(void) {
  const int64_t shape1[] = {HIDDEN, IN}, shape2[] = {OUT, HIDDEN};
  const normball_layer layers[] = {
      {.name = "w1", .dimensions = shape1, .rank = 2, .norm = "spectral", .radius = 4},
      {.name = "w2", .dimensions = shape2, .rank = 2, .norm = "sign", .radius = 8}};
  normball_options options;
  normball_default_options(&options);
  options.lr = 0.05;   /* the longest step relative to the balls */
  options.alpha = 0.9; /* weight of the newest gradient */
  options.rho = 10;    /* clipping threshold */

  normball_optimizer* optimizer = NULL;
  normball_status status =
      normball_create("clipped_scion", NORMBALL_F32, layers, 2, &options, &optimizer);
  void* weights[] = {w1, w2};
  void* gradients[] = {g1, g2};
  float loss = 0;
  for (int step = 0; status == NORMBALL_OK && step <= 40; ++step) {
    loss = loss_and_gradients();
    normball_report report = {0};
    status = normball_step(optimizer, weights, gradients, &report);
    if (step % 10 == 0) printf("step %2d  loss %.2e  s %.2e\n", step, loss, report.pairing);
  }
  if (status != NORMBALL_OK) fprintf(stderr, "%s\n", normball_last_error());
  normball_destroy(optimizer);
  return status == NORMBALL_OK && loss < 1e-6f ? 0 : 1;
}
