/** Sums of gradients in buckets while the backward pass runs, and the hook that reduces a bucket in another way. */
package dev.starling.distributed.bucket;
