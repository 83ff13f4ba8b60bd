/* The C interface as a C11 program sees it: results, reports, state and every way to fail. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "normball/normball.h"

static int passed = 0;
static int failed = 0;

static void check(int ok, const char* what, int line) {
  if (ok) {
    ++passed;
  } else {
    ++failed;
    printf("%s:%d: %s\n    last error: %s\n", __FILE__, line, what, normball_last_error());
  }
}
#define CHECK(condition) check((condition) ? 1 : 0, #condition, __LINE__)

/* The call must fail with this status and a text that contains the given one. */
#define CHECK_FAILS(call, expected_status, text)     \
  do {                                               \
    CHECK((call) == (expected_status));              \
    CHECK(strstr(normball_last_error(), text) != 0); \
  } while (0)
#define CHECK_INVALID(call, text) CHECK_FAILS(call, NORMBALL_INVALID_ARGUMENT, text)

static int near(double a, double b, double tolerance) {
  return fabs(a - b) <= tolerance * fmax(1, fabs(b));
}

static normball_options options_of(double lr, double rho) {
  normball_options options;
  normball_default_options(&options);
  options.lr = lr;
  options.rho = rho;
  return options;
}

/* A matrix layer; the dimensions live as long as the program. */
static normball_layer matrix_layer(const int64_t dimensions[2], const char* norm) {
  return (normball_layer){.dimensions = dimensions, .rank = 2, .norm = norm, .radius = 1};
}

static const int64_t two_by_two[] = {2, 2};
static const int64_t two_by_three[] = {2, 3};
static const int64_t three[] = {3};

static normball_optimizer* create(const char* method, normball_dtype dtype,
                                  const normball_layer* layers, size_t count,
                                  const normball_options* options) {
  normball_optimizer* optimizer = NULL;
  CHECK(normball_create(method, dtype, layers, count, options, &optimizer) == NORMBALL_OK);
  return optimizer;
}

static void test_before_the_first_error(void) {
  CHECK(strcmp(normball_last_error(), "") == 0);
  CHECK(strcmp(normball_version(), "0.1.0") == 0);
  normball_default_options(NULL);
  normball_destroy(NULL);
}

/* clipped_gd: x - (lr / rho) min(1, rho / |g|) g over all layers together. */
static void test_clipped_gd_is_its_formula(void) {
  const normball_layer layers[] = {matrix_layer(two_by_two, NULL),
                                   {.name = "bias", .dimensions = three, .rank = 1, .radius = 1}};
  const double lr = 0.5, rho = 2;
  const double scales[] = {1, 0.001}; /* clipped, not clipped */
  for (int i = 0; i < 2; ++i) {
    const normball_options options = options_of(lr, rho);
    normball_optimizer* optimizer = create("clipped_gd", NORMBALL_F64, layers, 2, &options);
    double w[] = {1, 2, 3, 4}, b[] = {5, 6, 7};
    double gw[] = {1, -2, 4, 0}, gb[] = {2, 0, 0}; /* the length of all is 5 */
    for (int j = 0; j < 4; ++j) gw[j] *= scales[i];
    for (int j = 0; j < 3; ++j) gb[j] *= scales[i];
    void* weights[] = {w, b};
    void* gradients[] = {gw, gb};
    normball_report report;
    CHECK(normball_step(optimizer, weights, gradients, &report) == NORMBALL_OK);

    const double length = 5 * scales[i];
    const double factor = lr / rho * fmin(1, rho / length);
    for (int j = 0; j < 4; ++j) CHECK(near(w[j], 1 + j - factor * gw[j], 1e-14));
    for (int j = 0; j < 3; ++j) CHECK(near(b[j], 5 + j - factor * gb[j], 1e-14));
    CHECK(report.step == 0);
    CHECK(near(report.pairing, length, 1e-14));
    CHECK(near(report.eta, fmin(rho, length), 1e-14));
    CHECK(near(report.gamma, lr / rho, 1e-14));
    CHECK(report.lr == lr);
    CHECK(report.wolfe_gap == 0);
    CHECK(report.clipped == (i == 0));
    CHECK(report.skipped == 0);
    normball_destroy(optimizer);
  }
}

/* Constrained, alpha < 1: v = W - r lmo(d) with d = alpha g, s = <d, v>. */
static void test_clipped_scion_is_its_formula(void) {
  const normball_layer layer = {.dimensions = three, .rank = 1, .norm = "sign", .radius = 2};
  normball_options options = options_of(0.5, 4);
  options.alpha = 0.25;
  normball_optimizer* optimizer = create("clipped_scion", NORMBALL_F32, &layer, 1, &options);
  float w[] = {1, -1, 0}, g[] = {4, -8, 0};
  void* weights[] = {w};
  void* gradients[] = {g};
  normball_report report;
  CHECK(normball_step(optimizer, weights, gradients, NULL) == NORMBALL_OK);
  /* d = (1, -2, 0), v = (3, -3, 0), s = 9: clipped, so W moves by lr v. */
  CHECK(w[0] == -0.5f && w[1] == 0.5f && w[2] == 0);
  /* d = (1.75, -3.5, 0), v = (1.5, -1.5, 0), s = 7.875: clipped again. */
  CHECK(normball_step(optimizer, weights, gradients, &report) == NORMBALL_OK);
  CHECK(w[0] == -1.25f && w[1] == 1.25f && w[2] == 0);
  CHECK(report.step == 1);
  CHECK(near(report.pairing, 7.875, 1e-6));
  CHECK(report.wolfe_gap == report.pairing);
  CHECK(report.eta == 4 && report.gamma == 0.125 && report.clipped == 1);
  normball_destroy(optimizer);

  const char* forms[] = {"plain", "norm", "diameter"};
  /* s / (4, |v|², 4) with |v| = 1.5: the product norm has the radius inside. */
  const double expected_eta[] = {9, 4, 2.25};
  for (int i = 0; i < 3; ++i) {
    options.short_step = forms[i];
    options.rho = 100;
    float x[] = {1, -1, 0};
    void* x_only[] = {x};
    optimizer = create("clipped_scion", NORMBALL_F32, &layer, 1, &options);
    CHECK(normball_step(optimizer, x_only, gradients, &report) == NORMBALL_OK);
    CHECK(near(report.eta, expected_eta[i], 1e-6) && report.clipped == 0);
    normball_destroy(optimizer);
  }
}

static void test_other_methods_by_name(void) {
  const normball_layer layer = {.dimensions = three, .rank = 1, .norm = "euclidean", .radius = 1};
  normball_options options = options_of(0, 0);
  options.l0 = 1;
  options.l1 = 1;
  normball_optimizer* optimizer = create("adaptive_sd", NORMBALL_F64, &layer, 1, &options);
  double x[] = {0, 0, 0}, g[] = {3, 0, 4};
  void* weights[] = {x};
  void* gradients[] = {g};
  CHECK(normball_step(optimizer, weights, gradients, NULL) == NORMBALL_OK);
  CHECK(near(x[0], -0.5, 1e-14) && x[1] == 0 && near(x[2], -2.0 / 3, 1e-14)); /* g / (1 + 5) */
  normball_destroy(optimizer);

  options.l0 = 0; /* x - g / |g| */
  memset(x, 0, sizeof x);
  optimizer = create("adaptive_sd", NORMBALL_F64, &layer, 1, &options);
  CHECK(normball_step(optimizer, weights, gradients, NULL) == NORMBALL_OK);
  CHECK(near(x[0], -0.6, 1e-14) && x[1] == 0 && near(x[2], -0.8, 1e-14));
  normball_destroy(optimizer);

  options = options_of(0.5, 1);
  options.beta = 2;
  options.short_step = "diameter";
  memset(x, 0, sizeof x);
  normball_report report;
  optimizer = create("s3cg", NORMBALL_F64, &layer, 1, &options);
  CHECK(normball_step(optimizer, weights, gradients, &report) == NORMBALL_OK);
  CHECK(near(report.pairing, 10, 1e-14) && near(report.eta, 10.0 / 16, 1e-14));
  CHECK(near(x[0], -0.5 * report.eta * 2 * 0.6, 1e-14));
  normball_destroy(optimizer);
}

static void test_set_lr(void) {
  const normball_layer layer = {.dimensions = three, .rank = 1, .norm = "sign", .radius = 1};
  const normball_options options = options_of(0.5, 1);
  normball_optimizer* optimizer = create("ggnc", NORMBALL_F32, &layer, 1, &options);
  float x[] = {0, 0, 0}, g[] = {1, -1, 0};
  void* weights[] = {x};
  void* gradients[] = {g};
  normball_report report;
  CHECK(normball_set_lr(optimizer, 0.25) == NORMBALL_OK);
  CHECK(normball_step(optimizer, weights, gradients, &report) == NORMBALL_OK);
  CHECK(report.lr == 0.25 && x[0] == -0.25f && x[1] == 0.25f && x[2] == 0);
  CHECK(normball_set_lr(optimizer, 0) == NORMBALL_OK);
  CHECK(normball_step(optimizer, weights, gradients, NULL) == NORMBALL_OK);
  CHECK(x[0] == -0.25f && x[1] == 0.25f);
  CHECK_INVALID(normball_set_lr(optimizer, -1), "lr must not be negative, got -1");
  CHECK(normball_set_lr(optimizer, NAN) == NORMBALL_INVALID_ARGUMENT);
  CHECK(normball_set_lr(optimizer, INFINITY) == NORMBALL_INVALID_ARGUMENT);
  CHECK(normball_step(optimizer, weights, gradients, &report) == NORMBALL_OK);
  CHECK(report.lr == 0);
  normball_destroy(optimizer);

  optimizer = create("clipped_scion", NORMBALL_F32, &layer, 1, &options);
  CHECK_INVALID(normball_set_lr(optimizer, 1.5), "a constrained method needs gamma eta <= 1");
  normball_destroy(optimizer);
}

static void test_set_alpha_and_rho(void) {
  const normball_layer layer = {.dimensions = three, .rank = 1, .norm = "sign", .radius = 1};
  const normball_options options = options_of(0.5, 1);
  normball_optimizer* optimizer = create("ggnc", NORMBALL_F64, &layer, 1, &options);
  double x[] = {0, 0, 0}, g[] = {1, -1, 0};
  void *weights[] = {x}, *gradients[] = {g};
  normball_report report;
  CHECK(normball_set_alpha(optimizer, 0.5) == NORMBALL_OK);
  CHECK(normball_set_rho(optimizer, 4) == NORMBALL_OK);
  /* d = g / 2, s = 1 < rho: lr stays, so gamma is 0.5 / 4. */
  CHECK(normball_step(optimizer, weights, gradients, &report) == NORMBALL_OK);
  CHECK(report.pairing == 1 && report.eta == 1 && report.gamma == 0.125 && report.clipped == 0);
  CHECK(x[0] == -0.125 && x[1] == 0.125 && x[2] == 0);
  CHECK_INVALID(normball_set_alpha(optimizer, 0), "alpha must be in (0, 1], got 0");
  CHECK_INVALID(normball_set_alpha(NULL, 0.5), "optimizer must not be null");
  CHECK_INVALID(normball_set_rho(optimizer, -2), "rho must be positive and finite, got -2");
  CHECK_INVALID(normball_set_rho(NULL, 1), "optimizer must not be null");
  CHECK(normball_step(optimizer, weights, gradients, &report) == NORMBALL_OK);
  CHECK(report.pairing == 1.5 && report.gamma == 0.125); /* neither was changed */
  normball_destroy(optimizer);

  const normball_options unclipped = options_of(0.5, 0);
  optimizer = create("scion", NORMBALL_F64, &layer, 1, &unclipped);
  CHECK_INVALID(normball_set_rho(optimizer, 2), "the rule 'normalized' does not clip");
  CHECK(normball_step(optimizer, weights, gradients, &report) == NORMBALL_OK);
  CHECK(report.eta == 1 && report.clipped == 0);
  normball_destroy(optimizer);
}

static void test_layer_reports(void) {
  const normball_layer layers[] = {
      matrix_layer(two_by_two, "spectral"),
      {.name = "b", .dimensions = three, .rank = 1, .norm = "sign", .radius = 2}};
  normball_options options = options_of(0.5, 1);
  options.report_weight_norms = 1;
  normball_optimizer* optimizer = create("clipped_scion", NORMBALL_F64, layers, 2, &options);
  double w[] = {0.5, 0, 0, -0.25}, b[] = {1, 0, -1}, gw[] = {3, 0, 0, 4}, gb[] = {1, 2, -3};
  void *weights[] = {w, b}, *gradients[] = {gw, gb};
  normball_report report;
  normball_layer_report layer;
  CHECK(normball_get_layer_report(optimizer, 0, &layer) == NORMBALL_OK);
  CHECK(strcmp(layer.name, "layer0") == 0 && layer.pairing == 0);
  CHECK(normball_step(optimizer, weights, gradients, &report) == NORMBALL_OK);
  CHECK(normball_get_layer_report(optimizer, 0, &layer) == NORMBALL_OK);
  CHECK(near(layer.dual_norm, 7, 1e-14) && near(layer.pairing, 7 + 1.5 - 1, 1e-14));
  CHECK(near(layer.weight_norm, 0.5, 1e-14));
  const double first = layer.pairing;
  CHECK(normball_get_layer_report(optimizer, 1, &layer) == NORMBALL_OK);
  CHECK(strcmp(layer.name, "b") == 0 && near(layer.dual_norm, 12, 1e-14));
  CHECK(near(layer.pairing, 12 + 1 + 3, 1e-14) && near(layer.weight_norm, 0.5, 1e-14));
  CHECK(near(first + layer.pairing, report.pairing, 1e-14));
  gb[1] = NAN;
  CHECK(normball_step(optimizer, weights, gradients, NULL) == NORMBALL_NON_FINITE);
  CHECK(normball_get_layer_report(optimizer, 1, &layer) == NORMBALL_OK);
  CHECK(strcmp(layer.name, "b") == 0 && layer.dual_norm == 0 && layer.pairing == 0);
  gb[1] = 2;
  CHECK(normball_step(optimizer, weights, gradients, NULL) == NORMBALL_OK);
  weights[1] = weights[0];
  CHECK_INVALID(normball_step(optimizer, weights, gradients, NULL), "share memory");
  CHECK(normball_get_layer_report(optimizer, 0, &layer) == NORMBALL_OK);
  CHECK(layer.dual_norm == 0 && layer.pairing == 0 && layer.weight_norm == 0);
  CHECK_INVALID(normball_get_layer_report(optimizer, 2, &layer), "layer must be below 2, got 2");
  CHECK_INVALID(normball_get_layer_report(optimizer, 0, NULL), "report must not be null");
  CHECK_INVALID(normball_get_layer_report(NULL, 0, &layer), "optimizer must not be null");
  normball_destroy(optimizer);
}

/* A weight outside its ball, opposite to the gradient: s < 0, and the clipped step stands still
 * until the weight is scaled. */
static void test_the_way_into_the_ball(void) {
  const normball_layer layer = {.dimensions = three, .rank = 1, .norm = "sign", .radius = 2};
  const normball_options options = options_of(0.5, 1);
  normball_optimizer* optimizer = create("clipped_scion", NORMBALL_F64, &layer, 1, &options);
  double x[] = {-8, -8, 0}, g[] = {1, 1, 1}, before = 0;
  void *weights[] = {x}, *gradients[] = {g}, *nothing[] = {NULL};
  normball_report report;
  CHECK(normball_step(optimizer, weights, gradients, &report) == NORMBALL_OK);
  CHECK(report.stalled == 1 && report.eta == 0 && report.pairing == -10 && x[0] == -8);
  CHECK(normball_scale_into_balls(optimizer, weights, &before) == NORMBALL_OK);
  CHECK(before == 4 && x[0] == -2 && x[1] == -2 && x[2] == 0);
  CHECK(normball_scale_into_balls(optimizer, weights, NULL) == NORMBALL_OK && x[0] == -2);
  CHECK(normball_step(optimizer, weights, gradients, &report) == NORMBALL_OK);
  CHECK(report.stalled == 0 && report.pairing == 2 && report.eta == 1 && x[2] == -1);
  x[1] = NAN;
  CHECK_FAILS(normball_scale_into_balls(optimizer, weights, NULL), NORMBALL_NON_FINITE, "is nan");
  CHECK_FAILS(normball_step(optimizer, weights, gradients, NULL), NORMBALL_NON_FINITE,
              "the weight of 'layer0' has an entry that is not finite");
  CHECK_INVALID(normball_scale_into_balls(NULL, weights, NULL), "optimizer must not be null");
  CHECK_INVALID(normball_scale_into_balls(optimizer, NULL, NULL), "weights must not be null");
  CHECK_INVALID(normball_scale_into_balls(optimizer, nothing, NULL),
                "[Optimizer::scale_into_balls] the weight of 'layer0' has null data");
  normball_destroy(optimizer);
}

/* Programs compiled with a shorter or a longer form of the structures. */
static void test_structures_may_grow(void) {
  struct longer_layer {
    normball_layer known;
    double later;
  } layers[] = {{.known = {.dimensions = three, .rank = 1, .norm = "sign", .radius = 1}},
                {.known = {.name = "second", .dimensions = three, .rank = 1, .radius = 1}}};
  struct {
    normball_options known;
    int later;
  } options;
  memset(&options, 0, sizeof options);
  options.known = options_of(0.5, 1);
  options.known.struct_size = sizeof options;
  options.known.layer_size = sizeof layers[0];
  struct {
    normball_report known;
    double later, beyond;
  } report = {.later = 7, .beyond = 8};
  options.known.report_size = sizeof report - sizeof report.beyond;
  normball_optimizer* optimizer = create("ggnc", NORMBALL_F32, &layers[0].known, 2, &options.known);
  float x[] = {0, 0, 0}, y[] = {0, 0, 0}, g[] = {1, -1, 0};
  void *weights[] = {x, y}, *gradients[] = {g, NULL};
  CHECK(normball_step(optimizer, weights, gradients, &report.known) == NORMBALL_OK);
  CHECK(report.known.pairing == 2 && report.later == 0 && report.beyond == 8);
  normball_layer_report second;
  CHECK(normball_get_layer_report(optimizer, 1, &second) == NORMBALL_OK);
  CHECK(strcmp(second.name, "second") == 0);
  normball_destroy(optimizer);

  options.later = 1; /* a field that this library does not know is used */
  CHECK_INVALID(
      normball_create("ggnc", NORMBALL_F32, &layers[0].known, 2, &options.known, &optimizer),
      "the program uses a field that version 0.1.0 of the library does not know");
  options.later = 0;
  layers[1].later = 1;
  CHECK_INVALID(
      normball_create("ggnc", NORMBALL_F32, &layers[0].known, 2, &options.known, &optimizer),
      "options.layer_size");
  normball_options zero = {0};
  CHECK_INVALID(normball_create("ggnc", NORMBALL_F32, &layers[0].known, 1, &zero, &optimizer),
                "normball_default_options()");
  zero = options_of(0.5, 1);
  zero.report_size = 1;
  CHECK_INVALID(normball_create("ggnc", NORMBALL_F32, &layers[0].known, 1, &zero, &optimizer),
                "options.report_size is 1");
}

static void test_a_step_without_gradients_is_none(void) {
  const normball_layer layer = {.dimensions = three, .rank = 1, .norm = "sign", .radius = 1};
  const normball_options options = options_of(0.5, 0);
  normball_optimizer* optimizer = create("scion", NORMBALL_F32, &layer, 1, &options);
  float x[] = {1, 1, 1};
  void *weights[] = {x}, *gradients[] = {NULL};
  normball_report report;
  int64_t steps = 9;
  CHECK(normball_step(optimizer, weights, gradients, &report) == NORMBALL_OK);
  CHECK(report.skipped == 1 && report.eta == 0 && x[0] == 1);
  CHECK(normball_get_steps(optimizer, &steps) == NORMBALL_OK && steps == 0);
  normball_destroy(optimizer);
}

static void test_a_null_gradient_leaves_its_layer_out(void) {
  const normball_layer layers[] = {matrix_layer(two_by_two, "sign(unit)"),
                                   {.dimensions = three, .rank = 1, .norm = "sign", .radius = 3}};
  const normball_options options = options_of(0.5, 1);
  normball_optimizer* optimizer = create("ggnc", NORMBALL_F32, layers, 2, &options);
  float a[] = {1, 1, 1, 1}, b[] = {1, 1, 1}, ga[] = {1, 2, 3, 4};
  void* weights[] = {a, b};
  void* gradients[] = {ga, NULL};
  normball_report report;
  CHECK(normball_step(optimizer, weights, gradients, &report) == NORMBALL_OK);
  CHECK(report.pairing == 10);
  for (int i = 0; i < 4; ++i) CHECK(a[i] == 0.5f);
  for (int i = 0; i < 3; ++i) CHECK(b[i] == 1);
  normball_destroy(optimizer);
}

/* What a method has of its own is not the layer's to choose. */
static void test_norms_and_radii_without_effect_are_refused(void) {
  const struct {
    const char *method, *norm;
    double radius, beta;
    const char* text; /* NULL: good */
  } cases[] = {
      {"gd", NULL, 1, 0, NULL},
      {"gd", "auto", 1, 0, NULL},
      {"gd", "euclidean", 1, 0, NULL},
      {"gd", "sign", 1, 0, "norm of 'layer0' is sign, which has no effect: 'gd' has euclidean"},
      {"gd", NULL, 4, 0, "radius of 'layer0' is 4, which has no effect: 'gd' has 1"},
      {"gd", NULL, 0, 0, "radius of 'layer0' must be positive and finite, got 0"},
      {"clipped_sign", "sign(unit)", 1, 0, NULL},
      {"clipped_sign", "spectral", 1, 0, "norm of 'layer0' is spectral"},
      {"clipped_sign", NULL, -5, 0, "radius of 'layer0' must be positive and finite, got -5"},
      {"s3cg", "sign", 1, 3, NULL},
      {"s3cg", "sign", 3, 3, NULL},
      {"s3cg", "sign", 2, 3, "radius of 'layer0' is 2, which has no effect: 's3cg' has 3"},
      {"s3cg", "sign", -5, 3, "radius of 'layer0' must be positive and finite, got -5"},
      {"s3cg", "sign", NAN, 3, "radius of 'layer0' must be positive and finite, got nan"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    normball_options options = options_of(0.1, strcmp(cases[i].method, "gd") == 0 ? 0 : 1);
    options.beta = cases[i].beta;
    normball_layer layer = matrix_layer(two_by_two, cases[i].norm);
    layer.radius = cases[i].radius;
    normball_optimizer* out = (normball_optimizer*)&options;
    const normball_status status =
        normball_create(cases[i].method, NORMBALL_F64, &layer, 1, &options, &out);
    if (cases[i].text == NULL) {
      CHECK(status == NORMBALL_OK && out != NULL);
    } else {
      CHECK_INVALID(status, cases[i].text);
      CHECK(out == NULL);
    }
    normball_destroy(out);
  }
}

static void test_flags_are_0_or_1(void) {
  const normball_layer layer = matrix_layer(two_by_two, NULL);
  for (int i = 0; i < 4; ++i) {
    normball_options options = options_of(0.1, 1);
    int* const flags[] = {&options.light, &options.overwrite_gradients, &options.skip_nonfinite,
                          &options.report_weight_norms};
    *flags[i] = i % 2 == 0 ? 2 : -1;
    normball_optimizer* out = NULL;
    CHECK_INVALID(normball_create("ggnc", NORMBALL_F64, &layer, 1, &options, &out),
                  i % 2 == 0 ? "must be 0 or 1, got 2" : "must be 0 or 1, got -1");
  }
}

static void test_layers_that_overlap_in_part_are_refused(void) {
  const normball_layer layers[] = {matrix_layer(two_by_two, NULL), matrix_layer(two_by_two, NULL)};
  const normball_options options = options_of(0.1, 1);
  normball_optimizer* optimizer = create("ggnc", NORMBALL_F64, layers, 2, &options);
  double w[8] = {0}, g[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  void *apart[] = {w, w + 4}, *shared[] = {w, w + 3}, *gradients[] = {g, g + 4};
  CHECK_INVALID(normball_step(optimizer, shared, gradients, NULL),
                "the weight of 'layer0' and the weight of 'layer1' share memory");
  CHECK_INVALID(normball_scale_into_balls(optimizer, shared, NULL),
                "the weight of 'layer0' and the weight of 'layer1' share memory");
  CHECK(normball_step(optimizer, apart, gradients, NULL) == NORMBALL_OK);
  normball_destroy(optimizer);
}

/* In light mode the average lives in the gradient buffer, to which new gradients are added. */
static void test_light_mode_takes_the_same_steps(void) {
  const normball_layer layer = matrix_layer(two_by_three, "spectral");
  normball_options options = options_of(0.1, 0.5);
  options.alpha = 0.3;
  normball_optimizer* full = create("ggnc", NORMBALL_F64, &layer, 1, &options);
  options.light = 1;
  normball_optimizer* light = create("ggnc", NORMBALL_F64, &layer, 1, &options);
  size_t count = 99;
  CHECK(normball_state_count(light, &count) == NORMBALL_OK && count == 0);

  double x[6] = {0}, y[6] = {0}, g[6], buffer[6] = {0};
  void *x_only[] = {x}, *y_only[] = {y}, *g_only[] = {g}, *buffer_only[] = {buffer};
  for (int k = 0; k < 4; ++k) {
    for (int i = 0; i < 6; ++i) {
      g[i] = sin(3 * k + i);
      buffer[i] += g[i];
    }
    normball_report a, b;
    CHECK(normball_step(full, x_only, g_only, &a) == NORMBALL_OK);
    CHECK(normball_step(light, y_only, buffer_only, &b) == NORMBALL_OK);
    CHECK(near(a.pairing, b.pairing, 1e-12));
    for (int i = 0; i < 6; ++i) CHECK(near(y[i], x[i], 1e-12));
  }
  CHECK(normball_set_alpha(full, 0.1) == NORMBALL_OK);
  CHECK_INVALID(normball_set_alpha(light, 0.1), "light has scaled the average of 'layer0' for 0.3");
  normball_destroy(full);
  normball_destroy(light);

  options.overwrite_gradients = 1;
  normball_optimizer* none = NULL;
  CHECK_INVALID(normball_create("ggnc", NORMBALL_F64, &layer, 1, &options, &none), "choose one");
}

static void test_overwritten_gradients_give_the_same_steps(void) {
  const normball_layer layer = matrix_layer(two_by_three, "spectral");
  normball_options options = options_of(0.1, 0.5);
  normball_optimizer* keeps = create("ggnc", NORMBALL_F32, &layer, 1, &options);
  options.overwrite_gradients = 1;
  options.threads = 1;
  normball_optimizer* overwrites = create("ggnc", NORMBALL_F32, &layer, 1, &options);
  float x[6] = {0}, y[6] = {0}, g[] = {1, 2, 3, -4, 5, 6}, h[6];
  memcpy(h, g, sizeof g);
  void *x_only[] = {x}, *y_only[] = {y}, *g_only[] = {g}, *h_only[] = {h};
  CHECK(normball_step(keeps, x_only, g_only, NULL) == NORMBALL_OK);
  CHECK(normball_step(overwrites, y_only, h_only, NULL) == NORMBALL_OK);
  CHECK(memcmp(x, y, sizeof x) == 0);
  CHECK(g[0] == 1 && g[5] == 6);
  normball_destroy(keeps);
  normball_destroy(overwrites);
}

/* Two layers, one of them with a low-rank basis beside its average. */
static normball_optimizer* stateful_optimizer(void) {
  static const int64_t shape[] = {6, 5};
  const normball_layer layers[] = {
      {.name = "w",
       .dimensions = shape,
       .rank = 2,
       .norm = "spectral(solver=power(rank=2))",
       .radius = 2},
      {.name = "b", .dimensions = three, .rank = 1, .norm = "rms", .radius = 1}};
  normball_options options = options_of(0.1, 3);
  options.alpha = 0.2;
  return create("clipped_scion", NORMBALL_F32, layers, 2, &options);
}

static void take_steps(normball_optimizer* optimizer, float* w, float* b, int from, int to) {
  void* weights[] = {w, b};
  for (int k = from; k < to; ++k) {
    float gw[30], gb[3];
    for (int i = 0; i < 30; ++i) gw[i] = (float)cos(7 * k + i) + w[i];
    for (int i = 0; i < 3; ++i) gb[i] = (float)sin(5 * k + i) + b[i];
    void* gradients[] = {gw, gb};
    CHECK(normball_step(optimizer, weights, gradients, NULL) == NORMBALL_OK);
  }
}

static void test_restored_state_continues_bit_for_bit(void) {
  enum { MAX_STATE = 100 };
  normball_optimizer* first = stateful_optimizer();
  float w[30] = {0}, b[3] = {0}, saved_w[30], saved_b[3];
  take_steps(first, w, b, 0, 3);

  int64_t steps = 0;
  size_t count = 0;
  CHECK(normball_get_steps(first, &steps) == NORMBALL_OK && steps == 3);
  CHECK(normball_state_count(first, &count) == NORMBALL_OK && count == 3);
  float saved[3][MAX_STATE];
  size_t sizes[3] = {0};
  const char* names[3] = {0};
  for (size_t i = 0; i < 3; ++i) {
    void* data = NULL;
    CHECK(normball_state_buffer(first, i, &names[i], &data, &sizes[i]) == NORMBALL_OK);
    CHECK(data != NULL && sizes[i] <= MAX_STATE);
    memcpy(saved[i], data, sizes[i] * sizeof(float));
  }
  CHECK(strcmp(names[0], "momentum.w") == 0 && sizes[0] == 30);
  CHECK(strcmp(names[1], "basis.w") == 0 && sizes[1] == 12);
  CHECK(strcmp(names[2], "momentum.b") == 0 && sizes[2] == 3);
  CHECK(normball_state_buffer(first, 0, NULL, NULL, NULL) == NORMBALL_OK);
  CHECK_INVALID(normball_state_buffer(first, 3, NULL, NULL, NULL), "index must be below 3, got 3");
  memcpy(saved_w, w, sizeof w);
  memcpy(saved_b, b, sizeof b);
  take_steps(first, w, b, 3, 6);

  normball_optimizer* second = stateful_optimizer();
  for (size_t i = 0; i < 3; ++i) {
    void* data = NULL;
    CHECK(normball_state_buffer(second, i, NULL, &data, NULL) == NORMBALL_OK);
    memcpy(data, saved[i], sizes[i] * sizeof(float));
  }
  CHECK(normball_set_steps(second, steps) == NORMBALL_OK);
  CHECK(normball_get_steps(second, &steps) == NORMBALL_OK && steps == 3);
  take_steps(second, saved_w, saved_b, 3, 6);
  CHECK(memcmp(w, saved_w, sizeof w) == 0);
  CHECK(memcmp(b, saved_b, sizeof b) == 0);
  CHECK_INVALID(normball_set_steps(second, -1),
                "steps_taken must be from 0 to 4611686018427387904, got -1");
  CHECK(normball_get_steps(second, &steps) == NORMBALL_OK && steps == 6);
  normball_destroy(first);
  normball_destroy(second);
}

static void test_a_non_finite_gradient_changes_nothing(void) {
  const normball_layer layers[] = {matrix_layer(two_by_two, "spectral"),
                                   {.name = "b", .dimensions = three, .rank = 1, .radius = 1}};
  normball_options options = options_of(0.5, 1);
  options.alpha = 0.5;
  const float bad_values[] = {NAN, INFINITY, -INFINITY};
  for (int i = 0; i < 6; ++i) {
    options.skip_nonfinite = i >= 3;
    normball_optimizer* optimizer = create("ggnc", NORMBALL_F32, layers, 2, &options);
    float w[] = {1, 2, 3, 4}, b[] = {5, 6, 7}, gw[] = {1, 0, 0, 2}, gb[] = {1, 1, 1};
    void* weights[] = {w, b};
    void* gradients[] = {gw, gb};
    normball_report report;
    CHECK(normball_step(optimizer, weights, gradients, &report) == NORMBALL_OK);

    float w_before[4], b_before[3], average_before[4];
    void* average = NULL;
    int64_t steps = 0;
    CHECK(normball_state_buffer(optimizer, 0, NULL, &average, NULL) == NORMBALL_OK);
    memcpy(w_before, w, sizeof w);
    memcpy(b_before, b, sizeof b);
    memcpy(average_before, average, sizeof average_before);
    gb[2] = bad_values[i % 3];
    if (options.skip_nonfinite) {
      CHECK(normball_step(optimizer, weights, gradients, &report) == NORMBALL_OK);
      CHECK(report.skipped == 1 && report.eta == 0 && report.clipped == 0);
      CHECK(report.pairing == 0); /* and not that of the step before */
    } else {
      CHECK_FAILS(normball_step(optimizer, weights, gradients, &report), NORMBALL_NON_FINITE,
                  "the gradient of 'b' has an entry that is not finite");
    }
    CHECK(memcmp(w, w_before, sizeof w) == 0);
    CHECK(memcmp(b, b_before, sizeof b) == 0);
    CHECK(memcmp(average, average_before, sizeof average_before) == 0);
    CHECK(normball_get_steps(optimizer, &steps) == NORMBALL_OK && steps == 1);

    gb[2] = 1;
    CHECK(normball_step(optimizer, weights, gradients, &report) == NORMBALL_OK);
    CHECK(report.skipped == 0 && report.step == 1 && report.pairing > 0);
    normball_destroy(optimizer);
  }
}

/* Finite gradients whose dual norm overflows: steepest descent has no step to take. */
static void test_an_overflow_does_not_end_the_optimizer(void) {
  const normball_layer layer = {.dimensions = three, .rank = 1, .norm = "sign", .radius = 1};
  const normball_options options = options_of(0.5, 0);
  normball_optimizer* optimizer = create("sd", NORMBALL_F64, &layer, 1, &options);
  double x[] = {1, 2, 3}, g[] = {DBL_MAX, DBL_MAX, DBL_MAX};
  void* weights[] = {x};
  void* gradients[] = {g};
  CHECK_FAILS(normball_step(optimizer, weights, gradients, NULL), NORMBALL_NON_FINITE,
              "s is not finite, because of the pairing of 'layer0'");
  CHECK(x[0] == 1 && x[1] == 2 && x[2] == 3);
  g[0] = g[1] = g[2] = 1;
  CHECK(normball_step(optimizer, weights, gradients, NULL) == NORMBALL_OK);
  CHECK(x[0] == -0.5 && x[1] == 0.5 && x[2] == 1.5);
  normball_destroy(optimizer);
}

static void test_create_refuses(void) {
  const normball_layer good = matrix_layer(two_by_two, "spectral");
  const normball_options options = options_of(0.5, 1);
  normball_layer layer = good;
  normball_options bad = options;
  normball_optimizer* out = NULL;

  CHECK_INVALID(normball_create(NULL, NORMBALL_F32, &good, 1, &options, &out),
                "method must not be null");
  CHECK_INVALID(normball_create("ggnc", NORMBALL_F32, NULL, 1, &options, &out),
                "layers must not be null");
  CHECK_INVALID(normball_create("ggnc", NORMBALL_F32, &good, 1, NULL, &out),
                "options must not be null");
  CHECK_INVALID(normball_create("ggnc", NORMBALL_F32, &good, 1, &options, NULL),
                "out must not be null");
  CHECK_INVALID(normball_create("cliped_scion", NORMBALL_F32, &good, 1, &options, &out),
                "unknown method 'cliped_scion'; did you mean 'clipped_scion'?");
  CHECK_INVALID(normball_create("ggnc", 7, &good, 1, &options, &out),
                "dtype must be NORMBALL_F32 or NORMBALL_F64, got 7");

  layer.norm = "spektral";
  CHECK_INVALID(normball_create("ggnc", NORMBALL_F32, &layer, 1, &options, &out),
                "unknown norm 'spektral'; did you mean 'spectral'?");
  layer = good;
  layer.dimensions = NULL;
  CHECK_INVALID(normball_create("ggnc", NORMBALL_F32, &layer, 1, &options, &out),
                "dimensions must not be null");
  const int64_t negative[] = {2, -3};
  layer = matrix_layer(negative, NULL);
  CHECK_INVALID(normball_create("ggnc", NORMBALL_F32, &layer, 1, &options, &out),
                "dimension 1 must not be negative, got -3");
  const int64_t huge[] = {INT64_MAX / 2, 8};
  layer = matrix_layer(huge, "sign");
  CHECK_INVALID(normball_create("ggnc", NORMBALL_F32, &layer, 1, &options, &out), "too large");
  const double bad_radii[] = {-1, 0, NAN, INFINITY};
  for (int i = 0; i < 4; ++i) {
    layer = good;
    layer.radius = bad_radii[i];
    CHECK_INVALID(normball_create("ggnc", NORMBALL_F32, &layer, 1, &options, &out),
                  "radius of 'layer0' must be positive and finite");
  }
  normball_layer twins[] = {good, good};
  twins[0].name = twins[1].name = "w";
  CHECK_INVALID(normball_create("ggnc", NORMBALL_F32, twins, 2, &options, &out),
                "two layers are named 'w'");

  bad.rho = 0;
  CHECK_INVALID(normball_create("ggnc", NORMBALL_F32, &good, 1, &bad, &out), "'ggnc' needs rho");
  bad.rho = -1;
  CHECK_INVALID(normball_create("ggnc", NORMBALL_F32, &good, 1, &bad, &out),
                "rho must be positive and finite, got -1");
  bad = options;
  bad.lr = 0;
  CHECK_INVALID(normball_create("ggnc", NORMBALL_F32, &good, 1, &bad, &out), "'ggnc' needs lr");
  bad.lr = -0.1;
  CHECK_INVALID(normball_create("ggnc", NORMBALL_F32, &good, 1, &bad, &out),
                "lr must not be negative");
  bad = options;
  bad.alpha = 1.5;
  CHECK_INVALID(normball_create("ggnc", NORMBALL_F32, &good, 1, &bad, &out),
                "alpha must be in (0, 1], got 1.5");
  bad = options;
  bad.short_step = "diametre";
  CHECK_INVALID(normball_create("clipped_scion", NORMBALL_F32, &good, 1, &bad, &out),
                "unknown short step 'diametre'; did you mean 'diameter'?");
  bad = options;
  bad.threads = -1;
  CHECK_INVALID(normball_create("ggnc", NORMBALL_F32, &good, 1, &bad, &out),
                "threads must be from 0 (OpenMP's default) to 4096, got -1");
  bad.threads = 100000;
  CHECK_INVALID(normball_create("ggnc", NORMBALL_F32, &good, 1, &bad, &out),
                "threads must be from 0 (OpenMP's default) to 4096, got 100000");
  CHECK_INVALID(normball_create("s3cg", NORMBALL_F32, &good, 1, &options, &out),
                "'s3cg' needs beta");
  CHECK_INVALID(normball_create("adaptive_sd", NORMBALL_F32, &good, 1, &options, &out),
                "'adaptive_sd' needs l");
  CHECK(out == NULL);
}

/* What each method reads beside lr: r(ho), a(lpha), b(eta), l(0 and 1), s(hort_step). */
static void test_create_refuses_what_the_method_ignores(void) {
  static const struct {
    const char *method, *reads;
  } methods[] = {{"gd", ""},
                 {"normalized_gd", ""},
                 {"clipped_gd", "r"},
                 {"sd", ""},
                 {"adaptive_sd", "l"},
                 {"ucg", ""},
                 {"ggnc", "ra"},
                 {"cg", ""},
                 {"s3cg", "rabs"},
                 {"clipped_sign", "ra"},
                 {"clipped_spectral", "ra"},
                 {"lars", "a"},
                 {"clipped_lars", "ra"},
                 {"scion", "a"},
                 {"unconstrained_scion", "a"},
                 {"clipped_scion", "ras"},
                 {"unconstrained_clipped_scion", "ra"}};
  const normball_layer layer = matrix_layer(two_by_three, NULL);
  for (size_t m = 0; m < sizeof methods / sizeof *methods; ++m) {
    const char* const reads = methods[m].reads;
    normball_options good;
    normball_default_options(&good);
    good.lr = 0.5;
    if (strchr(reads, 'r')) good.rho = 2;
    if (strchr(reads, 'a')) good.alpha = 0.5;
    if (strchr(reads, 'b')) good.beta = 3;
    if (strchr(reads, 'l')) good.l0 = 1;
    if (strchr(reads, 's')) good.short_step = "diameter";
    normball_destroy(create(methods[m].method, NORMBALL_F32, &layer, 1, &good));
    normball_optimizer* out = NULL;
    for (const char* option = "rablms"; *option; ++option) {
      if (strchr(reads, *option) || (*option == 'm' && strchr(reads, 'l'))) continue;
      normball_options bad = good;
      const char* text = "has no rho, got 2";
      if (*option == 'r') bad.rho = 2;
      if (*option == 'a') bad.alpha = 0.5, text = "has no alpha, got 0.5";
      if (*option == 'b') bad.beta = 3, text = "has no beta, got 3";
      if (*option == 'l') bad.l0 = 4, text = "has no l0, got 4";
      if (*option == 'm') bad.l1 = 5, text = "has no l1, got 5";
      if (*option == 's') bad.short_step = "norm", text = "short_step";
      CHECK_INVALID(normball_create(methods[m].method, NORMBALL_F32, &layer, 1, &bad, &out), text);
    }
    good.alpha = strchr(reads, 'a') ? 0.5 : 1; /* what it does anyway */
    normball_destroy(create(methods[m].method, NORMBALL_F32, &layer, 1, &good));
  }
  normball_options plain = options_of(0.5, 1);
  plain.beta = 2;
  plain.short_step = "plain";
  normball_optimizer* out = NULL;
  CHECK_INVALID(normball_create("s3cg", NORMBALL_F32, &layer, 1, &plain, &out),
                "short_step of 's3cg' is 'norm' or 'diameter', got 'plain'");
  plain.beta = 0;
  CHECK_INVALID(normball_create("scion", NORMBALL_F32, &layer, 1, &plain, &out), "no rho");
}

/* The lr of a method that has one of its own scales its steps, given now or later. */
static void test_lr_scales_open_loop_steps(void) {
  const normball_layer layer = {.dimensions = three, .rank = 1, .norm = "sign", .radius = 2};
  const double lrs[] = {0, 1, 0.25};
  for (int i = 0; i < 3; ++i) {
    for (int later = 0; later < 2; ++later) {
      const normball_options options = options_of(later ? 0 : lrs[i], 0);
      normball_optimizer* optimizer = create("cg", NORMBALL_F64, &layer, 1, &options);
      if (later && lrs[i] != 0) CHECK(normball_set_lr(optimizer, lrs[i]) == NORMBALL_OK);
      double x[] = {1, 1, 1}, g[] = {1, -1, 2};
      void *weights[] = {x}, *gradients[] = {g};
      CHECK(normball_step(optimizer, weights, gradients, NULL) == NORMBALL_OK);
      const double step = lrs[i] == 0 ? 1 : lrs[i]; /* times 2 / (k + 2) = 1 */
      CHECK(near(x[0], 1 - step * (1 + 2), 1e-15) && near(x[1], 1 - step * (1 - 2), 1e-15));
      normball_destroy(optimizer);
    }
  }
}

static void test_layers_do_not_share_memory(void) {
  const normball_layer layers[] = {
      {.name = "a", .dimensions = three, .rank = 1, .norm = "sign", .radius = 1},
      {.name = "b", .dimensions = three, .rank = 1, .norm = "sign", .radius = 1}};
  const normball_options options = options_of(0.5, 1);
  normball_optimizer* optimizer = create("ggnc", NORMBALL_F32, layers, 2, &options);
  float x[] = {1, 1, 1}, g[] = {1, 1, 1};
  void *weights[] = {x, x}, *gradients[] = {g, g}, *one[] = {g, NULL};
  CHECK_INVALID(normball_step(optimizer, weights, gradients, NULL),
                "the weight of 'a' and the weight of 'b' share memory");
  CHECK(x[0] == 1 && x[2] == 1);
  CHECK(normball_step(optimizer, weights, one, NULL) == NORMBALL_OK); /* stepped once */
  CHECK(x[0] != 1);
  float y[] = {1, 1, 1};
  void *apart[] = {x, y}, *others[] = {g, x};
  CHECK_INVALID(normball_step(optimizer, apart, others, NULL),
                "the weight of 'a' and the gradient of 'b' share memory");
  CHECK(y[0] == 1);
  normball_destroy(optimizer);
}

static void test_steps_have_a_range(void) {
  const normball_layer layer = {.dimensions = three, .rank = 1, .norm = "sign", .radius = 1};
  const normball_options options = options_of(0.5, 1);
  normball_optimizer* optimizer = create("ggnc", NORMBALL_F32, &layer, 1, &options);
  int64_t steps = 0;
  CHECK_INVALID(normball_set_steps(optimizer, INT64_MAX), "from 0 to 4611686018427387904");
  CHECK_INVALID(normball_set_steps(optimizer, -1), "got -1");
  float x[] = {1, 1, 1}, g[] = {1, 1, 1};
  void *weights[] = {x}, *gradients[] = {g};
  CHECK(normball_set_steps(optimizer, ((int64_t)1 << 62) - 1) == NORMBALL_OK);
  CHECK(normball_step(optimizer, weights, gradients, NULL) == NORMBALL_OK);
  CHECK(normball_get_steps(optimizer, &steps) == NORMBALL_OK);
  CHECK(steps == (int64_t)1 << 62);
  CHECK(normball_set_steps(optimizer, steps) == NORMBALL_OK); /* what was got can be set */
  const float before = x[0];
  CHECK_INVALID(normball_step(optimizer, weights, gradients, NULL), "the largest count");
  CHECK(x[0] == before);
  normball_destroy(optimizer);
}

/* s, or lr times s, beyond the numbers there are: weights and momentum are as before. */
static void test_an_overflow_leaves_weights_and_state(void) {
  const char* const norms[] = {"sign", "row", "col", "euclidean", "spectral"};
  for (int n = 0; n < 5; ++n) {
    for (int step = 0; step < 2; ++step) {
      const normball_layer layer = matrix_layer(two_by_three, norms[n]);
      normball_options options = options_of(step ? 1e300 : 0.5, step ? 0 : 1);
      if (!step) options.alpha = 0.5;
      normball_optimizer* optimizer =
          create(step ? "sd" : "ggnc", NORMBALL_F64, &layer, 1, &options);
      double x[] = {1, 1, 1, 1, 1, 1}, g[] = {1e-305, 2e-305, 0, 0, -1e-305, 1e-305};
      void *weights[] = {x}, *gradients[] = {g}, *data = NULL;
      size_t elements = 0;
      CHECK(normball_step(optimizer, weights, gradients, NULL) == NORMBALL_OK);
      CHECK(normball_state_buffer(optimizer, 0, NULL, &data, &elements) == NORMBALL_OK);
      double x_before[6], momentum_before[6];
      memcpy(x_before, x, sizeof x);
      memcpy(momentum_before, data, sizeof momentum_before);
      for (int i = 0; i < 6; ++i) g[i] = step ? 1e20 : (i % 2 ? 1.7e308 : -1.7e308);
      CHECK(normball_step(optimizer, weights, gradients, NULL) != NORMBALL_OK);
      CHECK(memcmp(x, x_before, sizeof x) == 0);
      CHECK(memcmp(data, momentum_before, sizeof momentum_before) == 0);
      for (int i = 0; i < 6; ++i) g[i] = 1e-305 * i;
      CHECK(normball_step(optimizer, weights, gradients, NULL) == NORMBALL_OK);
      normball_destroy(optimizer);
    }
  }
}

static void test_steps_and_state_refuse_null(void) {
  const normball_layer layer = {.dimensions = three, .rank = 1, .norm = "sign", .radius = 1};
  const normball_options options = options_of(0.5, 1);
  normball_optimizer* optimizer = create("ggnc", NORMBALL_F32, &layer, 1, &options);
  float x[] = {1, 1, 1}, g[] = {1, 1, 1};
  void *weights[] = {x}, *gradients[] = {g}, *nothing[] = {NULL};
  size_t count = 0;
  int64_t steps = 0;
  CHECK_INVALID(normball_step(NULL, weights, gradients, NULL), "optimizer must not be null");
  CHECK_INVALID(normball_step(optimizer, NULL, gradients, NULL), "weights must not be null");
  CHECK_INVALID(normball_step(optimizer, weights, NULL, NULL), "gradients must not be null");
  CHECK_INVALID(normball_step(optimizer, nothing, gradients, NULL),
                "[Optimizer::step] the weight of 'layer0' has null data");
  void* odd[] = {(char*)x + 1};
  CHECK_INVALID(normball_step(optimizer, odd, gradients, NULL),
                "the weight of 'layer0' does not start at a multiple of 4 bytes");
  CHECK_INVALID(normball_step(optimizer, weights, odd, NULL), "the gradient of 'layer0' does not");
  const normball_layer endless = {.dimensions = three, .rank = SIZE_MAX, .radius = 1};
  normball_optimizer* none = NULL;
  CHECK_INVALID(normball_create("ggnc", NORMBALL_F32, &endless, 1, &options, &none), "has rank");
  CHECK_INVALID(normball_set_lr(NULL, 1), "optimizer must not be null");
  CHECK_INVALID(normball_state_count(NULL, &count), "optimizer must not be null");
  CHECK_INVALID(normball_state_count(optimizer, NULL), "count must not be null");
  CHECK_INVALID(normball_state_buffer(NULL, 0, NULL, NULL, NULL), "optimizer must not be null");
  CHECK_INVALID(normball_get_steps(NULL, &steps), "optimizer must not be null");
  CHECK_INVALID(normball_get_steps(optimizer, NULL), "steps must not be null");
  CHECK_INVALID(normball_set_steps(NULL, 0), "optimizer must not be null");
  CHECK(normball_get_steps(optimizer, &steps) == NORMBALL_OK && steps == 0);
  CHECK(x[0] == 1 && x[1] == 1 && x[2] == 1);
  normball_destroy(optimizer);
}

static void test_single_norms(void) {
  const float d[] = {3, -4, 0, 0, 0, 0};
  float out[6];
  double value = 0;
  CHECK(normball_lmo("sign", NORMBALL_F32, d, 2, 3, out, &value) == NORMBALL_OK);
  CHECK(out[0] == -1.0f / 3 && out[1] == 1.0f / 3 && out[2] == 0 && out[5] == 0);
  CHECK(near(value, 7.0 / 3, 1e-7));
  CHECK(normball_lmo("euclidean", NORMBALL_F32, d, 2, 3, out, NULL) == NORMBALL_OK);
  CHECK(near(out[0], -0.6, 1e-7) && near(out[1], 0.8, 1e-7) && out[3] == 0);

  const double diagonal[] = {3, 0, 0, -4};
  double polar[4];
  CHECK(normball_lmo("spectral", NORMBALL_F64, diagonal, 2, 2, polar, &value) == NORMBALL_OK);
  CHECK(near(polar[0], -1, 1e-14) && near(polar[3], 1, 1e-14) && near(value, 7, 1e-14));
  CHECK(fabs(polar[1]) < 1e-14 && fabs(polar[2]) < 1e-14);
  CHECK(normball_norm("spectral", NORMBALL_F64, diagonal, 2, 2, &value) == NORMBALL_OK);
  CHECK(near(value, 4, 1e-14));
  CHECK(normball_dual_norm("spectral", NORMBALL_F64, diagonal, 2, 2, &value) == NORMBALL_OK);
  CHECK(near(value, 7, 1e-14));
  CHECK(normball_norm("sign", NORMBALL_F32, d, 2, 3, &value) == NORMBALL_OK);
  CHECK(near(value, 12, 1e-7));
  CHECK(normball_dual_norm("euclidean", NORMBALL_F32, d, 2, 3, &value) == NORMBALL_OK);
  CHECK(near(value, 5, 1e-7));

  const double zero[4] = {0};
  CHECK(normball_lmo("spectral", NORMBALL_F64, zero, 2, 2, polar, &value) == NORMBALL_OK);
  for (int i = 0; i < 4; ++i) CHECK(polar[i] == 0);
  CHECK(value == 0);
  CHECK(normball_norm("spectral", NORMBALL_F64, NULL, 0, 0, &value) == NORMBALL_OK && value == 0);
}

/* NaN wins over infinity, in every norm and its dual; an LMO of such a matrix is refused. */
static void test_norms_of_what_is_not_finite(void) {
  const char* norms[] = {"spectral", "sign", "row", "col", "rms", "euclidean"};
  for (int i = 0; i < 6; ++i) {
    double x[] = {1, 2, INFINITY, 4, 5, 6}, out[6], value = 0;
    float y[] = {1, 2, -INFINITY, 4, 5, 6};
    CHECK(normball_norm(norms[i], NORMBALL_F64, x, 2, 3, &value) == NORMBALL_OK);
    CHECK(isinf(value) && value > 0);
    CHECK(normball_dual_norm(norms[i], NORMBALL_F32, y, 2, 3, &value) == NORMBALL_OK);
    CHECK(isinf(value) && value > 0);
    x[4] = NAN;
    y[0] = NAN;
    CHECK(normball_dual_norm(norms[i], NORMBALL_F64, x, 2, 3, &value) == NORMBALL_OK);
    CHECK(isnan(value));
    CHECK(normball_norm(norms[i], NORMBALL_F32, y, 2, 3, &value) == NORMBALL_OK);
    CHECK(isnan(value));
    CHECK_INVALID(normball_lmo(norms[i], NORMBALL_F64, x, 2, 3, out, NULL), "not finite");
  }
}

static void test_single_norms_refuse(void) {
  const normball_dtype bad_dtype = -1;
  double d[] = {1, 2}, out[2], value = 0;
  CHECK_INVALID(normball_lmo(NULL, NORMBALL_F64, d, 1, 2, out, NULL), "norm must not be null");
  CHECK_INVALID(normball_lmo("sing", NORMBALL_F64, d, 1, 2, out, NULL), "did you mean 'sign'?");
  CHECK_INVALID(normball_lmo("sign", bad_dtype, d, 1, 2, out, NULL), "dtype must be");
  CHECK_INVALID(normball_lmo("sign", NORMBALL_F64, NULL, 1, 2, out, NULL), "null data");
  CHECK_INVALID(normball_lmo("sign", NORMBALL_F64, d, 1, 2, NULL, NULL), "null data");
  CHECK_INVALID(normball_lmo("sign", NORMBALL_F64, d, -1, 2, out, NULL), "-1 rows");
  CHECK_INVALID(normball_norm(NULL, NORMBALL_F64, d, 1, 2, &value), "norm must not be null");
  CHECK_INVALID(normball_norm("sign", NORMBALL_F64, d, 1, 2, NULL), "value must not be null");
  CHECK_INVALID(normball_norm("sign", NORMBALL_F64, NULL, 1, 2, &value), "null data");
  CHECK_INVALID(normball_norm("sign", bad_dtype, d, 1, 2, &value), "dtype must be");
  CHECK_INVALID(normball_norm("sign", NORMBALL_F64, d, (int64_t)1 << 40, (int64_t)1 << 40, &value),
                "too large");
  CHECK_INVALID(normball_norm("l2", NORMBALL_F64, d, 1, 2, &value), "unknown norm 'l2'");
  CHECK_INVALID(normball_dual_norm(NULL, NORMBALL_F64, d, 1, 2, &value), "norm must not be null");
  CHECK_INVALID(normball_dual_norm("sign", NORMBALL_F64, d, 1, 2, NULL), "value must not be null");
  CHECK_INVALID(normball_dual_norm("sign", NORMBALL_F64, NULL, 1, 2, &value), "null data");
  CHECK_INVALID(normball_dual_norm("sign", NORMBALL_F64, d, 1, -2, &value), "-2 columns");
  CHECK_INVALID(normball_dual_norm("sign", bad_dtype, d, 1, 2, &value), "dtype must be");
}

/* Stepsizes that find themselves, of a vector in its Euclidean norm: x - length g / |g|. */
static void test_stepsizes_are_their_formulas(void) {
  static const int64_t two[] = {2};
  const normball_layer layer = {.dimensions = two, .rank = 1, .radius = 1};
  const char* const stepsizes[] = {"adagrad", "distance_aware(first=0.5)", "momo(f_star=1)",
                                   "auto_clipped"};
  for (int r = 0; r < 4; ++r) {
    normball_options options = options_of(r == 1 ? 0 : 0.25, 0);
    options.stepsize = stepsizes[r];
    normball_optimizer* optimizer = create("normalized_gd", NORMBALL_F64, &layer, 1, &options);
    double x[] = {1, 2}, position = 0; /* along the direction of all gradients, (3, 4) / 5 */
    double squares = 0, weighted = 0, travelled = 0.5;
    const double sizes[] = {5, 10, 2.5}, losses[] = {2, 1.5, 1.25};
    const double seen[] = {0, 5, 5}; /* the median of what was before, as the smaller of two */
    for (int k = 0; k < 3; ++k) {
      const double s = sizes[k];
      double g[] = {0.6 * s, 0.8 * s}, length = 0;
      void *weights[] = {x}, *gradients[] = {g};
      normball_report report;
      squares += s * s;
      travelled = fmax(travelled, fabs(position));
      weighted += travelled * travelled * s * s;
      if (r == 0) length = 0.25 * s / sqrt(squares);
      if (r == 1) length = travelled * travelled * s / sqrt(weighted);
      if (r == 2) length = fmin(0.25, (losses[k] - 1) / s);
      if (r == 3) length = 0.25 * (k == 0 ? 1 : fmin(1, s / seen[k]));
      CHECK(normball_step_with_loss(optimizer, weights, gradients, losses[k], &report) ==
            NORMBALL_OK);
      CHECK(near(report.gamma * report.eta, length, 1e-14));
      CHECK(report.rho == (r == 3 ? seen[k] : 0));
      CHECK(report.clipped == (r == 3 && sizes[k] >= seen[k])); /* also at first, where it is 0 */
      position -= length;
      CHECK(near(x[0], 1 + 0.6 * position, 1e-14) && near(x[1], 2 + 0.8 * position, 1e-14));
    }
    normball_destroy(optimizer);
  }
}

static void test_what_a_stepsize_has_seen_is_state(void) {
  const normball_layer layer = matrix_layer(two_by_three, "spectral");
  const char* const stepsizes[] = {"adagrad", "distance_aware", "momo", "auto_clipped"};
  for (int r = 0; r < 4; ++r) {
    normball_options options = options_of(0.1, 0);
    options.stepsize = stepsizes[r];
    options.alpha = 0.5;
    normball_optimizer* all = create("unconstrained_scion", NORMBALL_F32, &layer, 1, &options);
    normball_optimizer* rest = create("unconstrained_scion", NORMBALL_F32, &layer, 1, &options);
    float x[6] = {1, 2, 3, 4, 5, 6}, y[6];
    for (int k = 0; k < 6; ++k) {
      float g[6], h[6];
      for (int i = 0; i < 6; ++i) g[i] = h[i] = (float)sin(i * (k + 2) + 1);
      void *weights[] = {x}, *gradients[] = {g}, *others[] = {y}, *same[] = {h};
      const double loss = 1.0 / (k + 1);
      if (k == 3) {
        const double* numbers = NULL;
        size_t count = 0, buffers = 0, expected = 0;
        int64_t steps = 0;
        memcpy(y, x, sizeof x);
        CHECK(normball_state_count(all, &buffers) == NORMBALL_OK);
        CHECK(normball_state_count(rest, &expected) == NORMBALL_OK && buffers == expected);
        for (size_t b = 0; b < buffers; ++b) {
          void *from = NULL, *to = NULL;
          size_t elements = 0;
          CHECK(normball_state_buffer(all, b, NULL, &from, &elements) == NORMBALL_OK);
          CHECK(normball_state_buffer(rest, b, NULL, &to, NULL) == NORMBALL_OK);
          memcpy(to, from, elements * sizeof(float));
        }
        CHECK(normball_get_steps(all, &steps) == NORMBALL_OK);
        CHECK(normball_set_steps(rest, steps) == NORMBALL_OK);
        CHECK(normball_get_memory(all, &numbers, &count) == NORMBALL_OK && count > 0);
        CHECK_INVALID(normball_set_memory(rest, numbers, count - 1), "numbers, got");
        CHECK(normball_set_memory(rest, numbers, count) == NORMBALL_OK);
      }
      if (k >= 3) {
        CHECK(normball_step_with_loss(rest, others, same, loss, NULL) == NORMBALL_OK);
      }
      CHECK(normball_step_with_loss(all, weights, gradients, loss, NULL) == NORMBALL_OK);
      if (k >= 3) CHECK(memcmp(x, y, sizeof x) == 0);
    }
    normball_destroy(all);
    normball_destroy(rest);
  }
}

static void test_stepsizes_refuse(void) {
  const normball_layer layer = matrix_layer(two_by_two, "sign");
  normball_options options = options_of(0.1, 0);
  normball_optimizer* optimizer = NULL;
  const double infinite = INFINITY;
  const double* numbers = NULL;
  size_t count = 7;
  options.stepsize = "adagard";
  CHECK_INVALID(normball_create("ucg", NORMBALL_F64, &layer, 1, &options, &optimizer), "adagrad");
  options.stepsize = "clipped(rho=1)";
  CHECK_INVALID(normball_create("ucg", NORMBALL_F64, &layer, 1, &options, &optimizer),
                "leave stepsize out; stepsizes are adagrad, distance_aware, momo or auto_clipped");
  options.stepsize = "distance_aware(most=2)";
  options.lr = 0.5;
  CHECK(normball_create("scion", NORMBALL_F64, &layer, 1, &options, &optimizer) == NORMBALL_OK);
  CHECK_INVALID(normball_set_lr(optimizer, 0.75), "can reach 1.5");
  normball_destroy(optimizer);
  options.lr = 0.1;
  options.stepsize = "momo(f_star=1)";
  CHECK_INVALID(normball_create("sd", NORMBALL_F64, &layer, 1, &options, &optimizer),
                "rule of its own");
  optimizer = create("ucg", NORMBALL_F64, &layer, 1, &options);
  double x[] = {1, 2, 3, 4}, g[] = {1, 1, 1, 1};
  void *weights[] = {x}, *gradients[] = {g};
  CHECK_INVALID(normball_step(optimizer, weights, gradients, NULL), "needs the loss");
  CHECK_INVALID(normball_step_with_loss(optimizer, weights, gradients, 0.5, NULL), "f_star = 1");
  CHECK_FAILS(normball_step_with_loss(optimizer, weights, gradients, NAN, NULL),
              NORMBALL_NON_FINITE, "loss");
  CHECK_INVALID(normball_step_with_loss(NULL, weights, gradients, 2, NULL), "must not be null");
  CHECK_INVALID(normball_get_memory(optimizer, NULL, NULL), "count must not be null");
  CHECK_INVALID(normball_set_memory(optimizer, NULL, 2), "numbers must not be null");
  CHECK(normball_get_memory(optimizer, &numbers, &count) == NORMBALL_OK);
  CHECK(count == 2 && numbers[0] == 0 && numbers[1] == 0);
  CHECK(x[0] == 1 && x[1] == 2 && x[2] == 3 && x[3] == 4);
  normball_destroy(optimizer);
  options.stepsize = "adagrad";
  optimizer = create("ucg", NORMBALL_F64, &layer, 1, &options);
  CHECK_INVALID(normball_set_memory(optimizer, &infinite, 1), "inf");
  normball_destroy(optimizer);
  options.stepsize = NULL;
  optimizer = create("ucg", NORMBALL_F64, &layer, 1, &options);
  CHECK(normball_get_memory(optimizer, &numbers, &count) == NORMBALL_OK && count == 0);
  CHECK(normball_set_memory(optimizer, NULL, 0) == NORMBALL_OK);
  normball_destroy(optimizer);
}

int main(void) {
  test_before_the_first_error();
  test_clipped_gd_is_its_formula();
  test_clipped_scion_is_its_formula();
  test_other_methods_by_name();
  test_set_lr();
  test_set_alpha_and_rho();
  test_layer_reports();
  test_the_way_into_the_ball();
  test_structures_may_grow();
  test_a_step_without_gradients_is_none();
  test_a_null_gradient_leaves_its_layer_out();
  test_light_mode_takes_the_same_steps();
  test_norms_and_radii_without_effect_are_refused();
  test_flags_are_0_or_1();
  test_layers_that_overlap_in_part_are_refused();
  test_overwritten_gradients_give_the_same_steps();
  test_restored_state_continues_bit_for_bit();
  test_a_non_finite_gradient_changes_nothing();
  test_an_overflow_does_not_end_the_optimizer();
  test_create_refuses();
  test_create_refuses_what_the_method_ignores();
  test_lr_scales_open_loop_steps();
  test_layers_do_not_share_memory();
  test_steps_have_a_range();
  test_an_overflow_leaves_weights_and_state();
  test_steps_and_state_refuse_null();
  test_stepsizes_are_their_formulas();
  test_what_a_stepsize_has_seen_is_state();
  test_stepsizes_refuse();
  test_single_norms();
  test_norms_of_what_is_not_finite();
  test_single_norms_refuse();
  printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
