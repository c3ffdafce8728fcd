/** Compression of gradients: only the largest elements, or factors of low rank. */
package dev.starling.distributed.codec;
