/** All operations as plain loops in double precision: the definition with which other backends are compared. */
package dev.starling.tensor.reference;
