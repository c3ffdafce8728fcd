/** What users set for a parameter server: storage, consistency, and the rule that servers apply. */
package dev.starling.distributed.ps.config;
