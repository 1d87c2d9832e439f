"""What every node and process needs: endpoints, parameters, DDS, pacing."""
