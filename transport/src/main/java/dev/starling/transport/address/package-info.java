/** Addresses of hosts. */
package dev.starling.transport.address;
