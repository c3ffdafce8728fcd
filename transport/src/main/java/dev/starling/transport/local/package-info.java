/** A wire between threads of one process. */
package dev.starling.transport.local;
