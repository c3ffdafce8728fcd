/** A wire over UCX, for RDMA and shared memory. */
package dev.starling.transport.ucx;
