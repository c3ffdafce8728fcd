/** A wire in a simulated network with simulated time, which loses, delays and cuts as a plan says. */
package dev.starling.transport.simulated;
