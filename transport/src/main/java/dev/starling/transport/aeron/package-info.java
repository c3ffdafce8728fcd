/** A wire over Aeron: shared memory on one host, UDP between hosts. */
package dev.starling.transport.aeron;
