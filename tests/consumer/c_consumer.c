/* Somebody else's program in C: the header is C, and linking needs no word about C++. */
#include <stdio.h>

#include "tilewise/matmul.h"

int main(void) {
  tilewise_matmul* matmul = NULL;
  const tilewise_status status = tilewise_create(NULL, &matmul);
  printf("status %d: %s\n", (int)status,
         status == TILEWISE_OK ? "a device is here" : tilewise_last_error());
  tilewise_destroy(matmul);
  return status == TILEWISE_OK || status == TILEWISE_NO_DEVICE || status == TILEWISE_DEVICE_ERROR
             ? 0
             : 1;
}
