/* A program in C outside the tree: the header is C, and linking needs no C++ option. */
#include <stdio.h>

#include "tilewise/matmul.h"

int main(void) {
  tilewise_matmul* matmul = NULL;
  printf("version %s\n", tilewise_version_text());
  if (tilewise_version() != TILEWISE_VERSION_NUMBER) return 1;
  const tilewise_status status = tilewise_create(NULL, &matmul);
  printf("status %d: %s\n", (int)status,
         status == TILEWISE_OK ? "a device is here" : tilewise_last_error());
  if (status == TILEWISE_OK) {
    const double a = 2, b = 3;
    double c = 0;
    tilewise_problem problem = TILEWISE_PROBLEM_INIT;
    tilewise_call call = TILEWISE_CALL_INIT;
    problem.m = problem.n = problem.k = 1;
    problem.operand = problem.result = TILEWISE_F64;
    call.a = &a, call.b = &b, call.c = &c;
    call.lda = call.ldb = call.ldc = 1;
    if (tilewise_multiply_host(matmul, &problem, &call) == TILEWISE_OK)
      printf("2 x 3 = %g\n", c);
    else
      puts(tilewise_last_error());
  }
  tilewise_destroy(matmul);
  return status == TILEWISE_OK || status == TILEWISE_NO_DEVICE || status == TILEWISE_DEVICE_ERROR
             ? 0
             : 1;
}
