/* One step through the installed C header and library: w - lr sign(g). */
#include <normball/normball_c.h>
#include <stdio.h>

int main(void) {
  const int64_t size = 3;
  const normball_layer layer = {.dimensions = &size, .rank = 1, .norm = "sign", .radius = 1};
  normball_options options;
  normball_default_options(&options);
  options.lr = 0.25;
  options.rho = 1;
  float w[] = {1, 1, 1}, g[] = {2, -3, 0};
  void* weights[] = {w};
  void* gradients[] = {g};
  normball_optimizer* optimizer = NULL;
  normball_report report = {0};
  if (normball_create("ggnc", NORMBALL_F32, &layer, 1, &options, &optimizer) != NORMBALL_OK ||
      normball_step(optimizer, weights, gradients, &report) != NORMBALL_OK) {
    fprintf(stderr, "%s\n", normball_last_error());
    return 1;
  }
  normball_destroy(optimizer);
  printf("normball %s: %g %g %g, s = %g\n", normball_version(), w[0], w[1], w[2], report.pairing);
  return w[0] == 0.75f && w[1] == 1.25f && w[2] == 1 && report.pairing == 5 ? 0 : 1;
}
