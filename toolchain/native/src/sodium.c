// What libsodium's files here want from those that are not, and its check of a public key.
#include <stdlib.h>

#include "private/ed25519_ref10.h"
#include "randombytes.h"
#include "sodium.h"

// Called where a caller breaks a rule of the interface.
void sodium_misuse(void) { abort(); }

// Called where keys or signatures are made, which no board does.
void randombytes_buf(void* const buffer, const size_t size) {
  (void)buffer;
  (void)size;
  abort();
}

// As crypto_core_ed25519_is_valid_point, whose file needs many others.
int edge_is_public_key(const unsigned char* key) {
  ge25519_p3 point;
  return ge25519_is_canonical(key) != 0 && ge25519_has_small_order(key) == 0 && ge25519_frombytes(&point, key) == 0 &&
         ge25519_is_on_curve(&point) != 0 && ge25519_is_on_main_subgroup(&point) != 0;
}
